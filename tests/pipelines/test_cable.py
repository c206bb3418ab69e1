"""hotspare cable accept, with .sor files written by hand (tests.detectors.fiber.fiber_shots)."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.main import main
from schemas.formats.sor_writer import encode
from tests.detectors.fiber.fiber_shots import CONNECTOR, END, SPLICE, as_rows, behind_reels

CORPUS = Path(__file__).parents[3] / "shared/corpus/otdr"
NEAR, PANEL, FAR = (0.0, 0.2, -50.0, CONNECTOR), (40.0, 0.25, -52.0, CONNECTOR), (100.0, 0.2, -51.0, CONNECTOR)
REELS = ("--launch-meters", "150", "--tail-meters", "50")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """Arguments of `cable accept` -> exit code, standard output, standard error; in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["hotspare", "cable", "accept", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, said.out, said.err

    return call


def write(
    name: str, *events: Any, cable: str = "c1", fiber: str = "1", nanometers: float = 1310.0, hour: int = 8
) -> Path:
    one = behind_reels(*events, launch=150.0, tail=50.0, nanometers=nanometers)
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_bytes(encode(*as_rows(one, cable=cable, fiber=fiber, hour=hour)))
    return Path(name)


def report(run: Any, *arguments: object) -> tuple[int, dict[str, Any]]:
    code, out, _ = run(*arguments, "--json")
    return code, json.loads(out)


def test_a_batch_tells_three_verdicts_the_reject_rate_and_the_reasons_and_hides_no_file(run: Any) -> None:
    write("batch/a.sor", NEAR, PANEL, FAR)
    write("batch/b.SOR", NEAR, (40.0, 1.0, -30.0, CONNECTOR), FAR, fiber="2")
    write("batch/deeper/c.sor", NEAR, (40.0, -0.4, None, SPLICE), FAR, fiber="3")
    whole = Path("batch/a.sor").read_bytes()
    Path("batch/cut.sor").write_bytes(whole[:300])
    Path("batch/text.sor").write_text("no trace at all")
    Path("batch/notes.txt").write_text("is not looked at")
    code, told = report(run, "batch", "missing.sor", *REELS)
    assert code == 1
    assert [(Path(one["file"]).name, one["verdict"]) for one in told["files"]] == [
        ("a.sor", "PASS"), ("b.SOR", "FAIL"), ("c.sor", "UNRESOLVABLE"),
    ]  # fmt: skip
    assert told["verdicts"] == {"PASS": 1, "FAIL": 1, "UNRESOLVABLE": 1}
    assert told["rejected_share"] == 0.5
    assert told["failed_by_reason"] == {"connector_loss": 1, "reflectance": 1}
    assert told["unresolvable_by_reason"] == {"gainer": 1}
    reasons = {Path(one["file"]).name: one["reason"] for one in told["unreadable"]}
    assert set(reasons) == {"cut.sor", "text.sor", "missing.sor"}
    assert "ends at byte" in reasons["cut.sor"]
    _, out, _ = run("batch", "missing.sor", *REELS)
    assert "1 PASS, 1 FAIL, 1 UNRESOLVABLE; 50.0% of those that can be judged rejected" in out
    assert all(
        name in out for name in ("cut.sor: SOR: block", "missing.sor: No such file", "40.0 m: reflects -30.0 dB")
    )


@pytest.mark.parametrize(
    ("events", "code"),
    [
        ((NEAR, PANEL, FAR), 0),
        ((NEAR, (40.0, 1.0, -52.0, CONNECTOR), FAR), 1),
        ((NEAR, (40.0, -0.4, None, SPLICE), FAR), 0),
    ],
    ids=["PASS", "FAIL", "UNRESOLVABLE"],
)
def test_the_exit_code_says_whether_something_fails(run: Any, events: tuple[Any, ...], code: int) -> None:
    assert run(write("one.sor", *events), *REELS)[0] == code


def test_a_folder_without_traces_and_an_unknown_grade_are_wrong_use(run: Any) -> None:
    Path("empty").mkdir()
    code, out, _ = run("empty")
    assert (code, "no .sor file in this folder" in out) == (2, True)
    code, _, err = run(write("one.sor", NEAR, FAR), "--grade", "gold")
    assert (code, err) == (2, "hotspare: --grade: no grade 'gold'; known: tia, reference, strict, b, c, d\n")
    assert run("one.sor", "--length-meters", "100")[0] == 2


def test_limits_reels_and_resolution_are_settings(run: Any) -> None:
    one = write("one.sor", NEAR, PANEL, FAR)
    Path("hotspare.toml").write_text(
        "[cable]\nconnector_loss_db = 0.22\nlaunch_meters = 150.0\ntail_meters = 50.0\ngroup_index_uncertainty = 0.01\n"
    )
    code, told = report(run, one)
    (file,) = told["files"]
    assert (code, [reason["text"] for reason in file["reasons"]]) == (1, ["40.0 m: loses 0.25 dB, limit 0.22"])
    assert file["length_meters"] == pytest.approx(100, abs=0.05)
    assert file["length_uncertainty_meters"] > 1
    Path("hotspare.toml").write_text("[cable]\ngraed = 'tia'\n")
    assert "cable.graed: no such key; did you mean 'grade'?" in run(one)[2]


def test_a_baseline_tells_what_to_do(run: Any) -> None:
    before = write("before.sor", NEAR, PANEL, FAR)
    after = {
        "clean": write("dirt.sor", NEAR, (40.0, 0.3, -30.0, CONNECTOR), FAR, hour=9),
        "reseat": write("gap.sor", NEAR, (40.0, 0.7, -15.0, CONNECTOR), FAR, hour=9),
        "replace": write("bend.sor", NEAR, PANEL, (70.0, 0.8, None, SPLICE), FAR, hour=9),
        None: write("same.sor", NEAR, (40.0, 0.27, -53.0, CONNECTOR), FAR, hour=9),
    }
    code, told = report(run, *after.values(), "--baseline", before, *REELS)
    assert code == 1
    assert [one["advice"] for one in told["files"]] == list(after)
    bend = told["files"][2]
    assert [(one["cause"], one["signature"]) for one in bend["changes"]] == [("fiber_loss", "bend")]
    assert [round(one["distance_meters"]) for one in bend["compared"] if one["signature"]] == [70]
    out = run(after["reseat"], "--baseline", before, *REELS)[1]
    assert "open_connector" in out
    assert "{" not in out  # a table, no JSON for people


def test_a_break_is_seen_although_the_tail_reel_is_not(run: Any) -> None:
    before = write("before.sor", NEAR, PANEL, FAR)
    one = behind_reels(NEAR, PANEL, (70.0, 0.0, -40.0, END), launch=150.0, tail=1.0)
    Path("broken.sor").write_bytes(encode(*as_rows(one, cable="c1")))
    code, told = report(run, "broken.sor", "--baseline", before, *REELS)
    (file,) = told["files"]
    assert (code, file["verdict"], file["advice"]) == (1, "FAIL", "replace")
    assert [(one["code"], one["signature"]) for one in file["changes"]] == [("break", "break")]


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"cable": "c2"}, "cable c2, not c1"),
        ({"fiber": "7"}, "fibre 7, not 1"),
        ({"nanometers": 1550.0}, "1550 nm, not 1310 nm"),
        ({"far": 60.0}, "this fibre ends at 100.0 m, its baseline at 60.0 m"),
    ],
    ids=["cable", "fibre", "wavelength", "length"],
)
def test_a_baseline_of_another_fibre_is_refused(run: Any, other: dict[str, Any], says: str) -> None:
    end = other.pop("far", 100.0)
    before = write("before.sor", NEAR, PANEL, (end, *FAR[1:]), **other)
    code, out, _ = run(write("now.sor", NEAR, PANEL, FAR, hour=9), "--baseline", before, *REELS)
    assert code == 2
    assert f"{before}" in out
    assert says in out


def test_each_fibre_of_a_batch_finds_its_own_baseline(run: Any) -> None:
    for fiber, loss in (("1", 0.2), ("2", 0.6)):
        write(f"before/{fiber}.sor", NEAR, (40.0, loss, -52.0, CONNECTOR), FAR, fiber=fiber)
        write(f"now/{fiber}.sor", NEAR, (40.0, 0.62, -52.0, CONNECTOR), FAR, fiber=fiber, hour=9)
    write("now/3.sor", NEAR, PANEL, FAR, fiber="3", hour=9)
    _, told = report(run, "now", "--baseline", "before", *REELS)
    assert [(one["verdict"], one["advice"]) for one in told["files"]] == [
        ("FAIL", "reseat"), ("PASS", None), ("UNRESOLVABLE", None),
    ]  # fmt: skip
    assert told["files"][2]["reasons"][0]["text"] == "no baseline for cable c1, fibre 3 at 1310 nm"


def test_two_shots_from_both_ends_are_one_answer(run: Any) -> None:
    ahead = write("ahead.sor", NEAR, (40.0, -0.2, None, SPLICE), FAR)
    back = write("back.sor", NEAR, (60.0, 0.4, None, SPLICE), FAR, hour=9)
    assert report(run, ahead, back, *REELS)[1]["verdicts"] == {"PASS": 0, "FAIL": 1, "UNRESOLVABLE": 1}
    code, told = report(run, ahead, back, "--both-ends", *REELS)
    (file,) = told["files"]
    assert (code, file["verdict"], len(file["files"])) == (0, "PASS", 2)
    assert [round(one["loss_db"], 3) for one in file["events"] if one["directions"] == 2] == [0.2, 0.1, 0.2]
    assert report(run, ahead, "--both-ends", *REELS)[1]["unresolvable_by_reason"] == {"pair": 1}


def test_a_fibre_at_two_wavelengths_shows_its_bend(run: Any) -> None:
    write("two/1310.sor", NEAR, (40.0, 0.1, None, SPLICE), FAR)
    write("two/1550.sor", NEAR, (40.0, 0.29, None, SPLICE), (70.0, 0.6, None, SPLICE), FAR, nanometers=1550.0)
    assert report(run, "two", *REELS)[1]["failed_by_reason"] == {"macrobend": 1, "splice_loss": 1}


def test_lengths_within_a_sea_star_group(run: Any) -> None:
    Path("hotspare.toml").write_text("[topology]\nparameters = { pods = 1, superblocks_per_pod = 1 }\n")
    for cable, end in (("c1", 100.0), ("c2", 100.1), ("c3", 103.0)):
        write(f"star/{cable}.sor", NEAR, (end, *FAR[1:]), cable=cable)
    verdicts = {
        tolerance: [one["verdict"] for one in report(run, "star", "--match-meters", tolerance, *REELS)[1]["files"]]
        for tolerance in (1, 5)
    }
    assert verdicts == {1: ["PASS", "PASS", "FAIL"], 5: ["PASS", "PASS", "PASS"]}


def test_each_cable_is_held_against_the_length_that_the_topology_plans(run: Any) -> None:
    Path("plan").mkdir()
    Path("plan/nodes.csv").write_text("node\nn00000\n")
    Path("plan/links.csv").write_text(
        "cable,a,a_port,b,b_port,length_meters\nc1,n00000/hca0,1,leaf-000,1,100\nc2,n00000/hca1,1,leaf-000,2,90\n"
    )
    Path("hotspare.toml").write_text("[topology]\nfolder = 'plan'\n")
    for cable in ("c1", "c2", "c3"):
        write(f"cables/{cable}.sor", NEAR, FAR, cable=cable)
    _, told = report(run, "cables", "--length-tolerance-meters", "2", *REELS)
    assert [(one["verdict"], [reason["name"] for reason in one["reasons"]]) for one in told["files"]] == [
        ("PASS", []), ("FAIL", ["length"]), ("UNRESOLVABLE", ["length"]),
    ]  # fmt: skip


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the shared corpus is not here")
def test_real_traces_have_the_values_that_another_reader_gives(run: Any) -> None:
    expected = json.loads((CORPUS / "expected.json").read_text())
    _, told = report(run, CORPUS)
    assert sorted(Path(one["file"]).name for one in told["files"]) == sorted(expected)
    assert told["unreadable"] == []
    for one in told["files"]:
        right = expected[Path(one["file"]).name]
        assert len(one["events"]) == right["events"]
        assert one["samples"] == right["npts"]
        if right["summary"]["total loss"]:
            assert one["total_loss_db"] == pytest.approx(right["summary"]["total loss"], abs=1e-3)
        past = [event["verdict"] for event in one["events"] if event["role"] in {"end", "beyond"}]
        assert set(past) == {"-"}
