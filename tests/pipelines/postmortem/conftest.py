"""The incident that tests/pipelines/bundles uses, made once for this folder."""

from tests.pipelines.bundles.conftest import bundle, place

__all__ = ["bundle", "place"]
