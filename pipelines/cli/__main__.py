"""python -m pipelines.cli: the same as the hotspare command."""

from pipelines.cli.main import main

main()
