"""What an ingest says: of refused rows, of files that grew, of nodes, and of why nothing was done."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.cli.main import EXITS, app
from pipelines.cli.output import Refused
from pipelines.operations_database import StoreUnavailable
from pipelines.settings import SettingsError
from pipelines.sources.contract import SourceError

ROOT = Path(__file__).resolve().parents[2]
Hotspare = Callable[..., str]


@pytest.fixture
def hotspare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Hotspare:
    """The command in this process, in a folder of its own; gives what it wrote to standard output."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> str:
        capsys.readouterr()
        app(arguments, standalone_mode=False)
        return capsys.readouterr().out

    return run


def xid(clock: str, code: int = 31, host: str = "") -> str:
    """A line of `dmesg -T`, as formats.md A4 has it; with a host, one of syslog."""
    stamp = f"2026-03-01T{clock}Z {host} kernel:" if host else f"[Sun Mar  1 {clock} 2026]"
    return f"{stamp} NVRM: Xid (PCI:0000:9b:00): {code}, pid=1, name=train\n"


def taken(hotspare: Hotspare, *arguments: str) -> dict:
    return json.loads(hotspare("ingest", "--json", "--from", *arguments))


def test_refused_lines_are_told_with_rule_count_reason_and_first_place_and_can_be_listed(hotspare: Hotspare) -> None:
    Path("kern.log").write_text(xid("08:00:00") + "NVRM: Xid (none): some error\n" * 2)
    text = hotspare("ingest", "--from", "kern.log", "--node", "n00001")
    (row,) = [line for line in text.splitlines() if line.startswith("gpu_event  xid|line")]
    assert "2     line 2: says Xid in a way that cannot be read  kern.log:2" in row
    assert "hotspare quarantine" in text
    listed = json.loads(hotspare("quarantine", "--from", "kern", "--json"))
    assert [one["place"] for one in listed["rows"]] == ["kern.log:2", "kern.log:3"]
    assert listed["rows"][0]["raw"] == "NVRM: Xid (none): some error"


@pytest.mark.parametrize("coding", ["utf-16", "utf-8-sig"])
def test_text_with_a_mark_is_read_as_what_it_says(coding: str, hotspare: Hotspare) -> None:
    Path("kern.log").write_bytes(xid("08:00:00").encode(coding))
    assert taken(hotspare, "kern.log")["rows"] == {"gpu_event": 1}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe" + b"\x00\xd8" * 9, "kern.log: UTF-16 by its first bytes, but damaged at byte 2"),
        (xid("08:00:00").encode("utf-16-le"), "iconv -f UTF-16LE -t UTF-8"),
        (xid("08:00:00").encode("utf-32"), "kern.log: UTF-32; convert it with iconv"),
        (bytes(range(256)) * 9, "kern.log: binary (a NUL at byte 0)"),
    ],
    ids=["damaged UTF-16", "no mark", "UTF-32", "binary"],
)
def test_text_that_cannot_be_read_says_why(content: bytes, said: str, hotspare: Hotspare) -> None:
    Path("kern.log").write_bytes(content)
    with pytest.raises(SourceError) as refused:
        hotspare("ingest", "--from", "kern.log")
    assert said in str(refused.value)


def test_a_file_that_gives_nothing_says_so(hotspare: Hotspare) -> None:
    Path("kern.log").write_text("[Sun Mar  1 08:00:00 2026] usb 1-1: new device\n")
    assert taken(hotspare, "kern.log")["remarks"] == ["read as kernel log: nothing in it is for any table"]


def test_of_a_log_that_grew_only_what_is_new_is_taken(hotspare: Hotspare) -> None:
    log = Path("kern.log")
    log.write_text(xid("08:00:00") + xid("08:00:09") + xid("08:00:10")[:30])  # the last line is still being written
    assert taken(hotspare, "kern.log", "--node", "n00001")["rows"] == {"gpu_event": 2}
    log.write_text(xid("08:00:00") + xid("08:00:09") + xid("08:00:10") + "NVRM: Xid (none): some error\n")
    again = taken(hotspare, "kern.log")
    assert (again["rows"], again["late"]) == ({"gpu_event": 1}, 0)
    assert [one["place"] for one in again["refused"]] == ["kern.log:4"]
    assert "as node n00001" in again["remarks"][0]
    assert "nothing is new" in taken(hotspare, "kern.log")["remarks"][0]


def test_a_log_that_was_rewritten_is_read_again_and_says_so(hotspare: Hotspare) -> None:
    Path("kern.log").write_text(xid("08:00:00"))
    taken(hotspare, "kern.log", "--node", "n00001")
    Path("kern.log").write_text(xid("09:00:00") + xid("09:00:05"))
    again = taken(hotspare, "kern.log", "--node", "n00002")
    assert again["rows"] == {"gpu_event": 2}
    assert "was rewritten" in again["remarks"][0]
    assert "as node n00002" in taken(hotspare, "kern.log")["remarks"][0]


def test_a_csv_that_grew_keeps_its_heading_and_what_is_packed_counts_as_its_content(hotspare: Hotspare) -> None:
    heading, row = "timestamp, index, temperature.gpu\n", "2026/03/01 08:00:0{}.000, 3, 4{}\n"
    Path("smi.csv").write_text(heading + row.format(0, 0))
    assert taken(hotspare, "smi.csv", "--node", "n00001")["rows"] == {"gpu": 1}
    Path("smi.csv").write_bytes(gzip.compress((heading + row.format(0, 0) + row.format(1, 1)).encode()))
    again = taken(hotspare, "smi.csv")
    assert (again["rows"], again["late"]) == ({"gpu": 1}, 0)


def test_a_file_that_was_taken_as_one_node_is_not_silently_anothers(hotspare: Hotspare) -> None:
    Path("kern.log").write_text(xid("08:00:00"))
    first = taken(hotspare, "kern.log")
    assert "taken as node kern" in first["remarks"][0]
    with pytest.raises(SourceError, match=r"kern\.log: was already taken as node kern.*ln -s kern\.log n00012\.log"):
        hotspare("ingest", "--from", "kern.log", "--node", "n00012")


def test_one_bad_file_among_many_costs_only_itself(hotspare: Hotspare, capsys: pytest.CaptureFixture[str]) -> None:
    Path("many").mkdir()
    Path("many/a.log").write_bytes(b"\0\1\2" * 99)
    Path("many/b.log").write_text(xid("08:00:00"))
    assert app(["ingest", "--from", "many", "--json"], standalone_mode=False) == 2
    document = json.loads(capsys.readouterr().out)
    assert [one["rows"] for one in document["sources"]] == [{"gpu_event": 1}]
    assert "many/a.log" in document["unreadable"][0]


def test_history_that_is_only_rehearsed_says_so_wherever_its_actions_are_shown(hotspare: Hotspare) -> None:
    Path("hotspare.toml").write_text('[recovery]\nmode = "enforce"\n')
    Path("kern.log").write_text(xid("08:00:00", code=79))
    shown = [hotspare("ingest", "--from", "kern.log", "--node", "n00003"), hotspare("actions", "list")]
    (incident,) = json.loads(hotspare("incidents", "list", "--json"))["incidents"]
    shown.append(hotspare("incidents", "show", incident["id"]))
    assert ["history, rehearsed and not done" in text for text in shown] == [True] * 3


def test_what_a_prefix_may_mean_is_listed(hotspare: Hotspare) -> None:
    Path("n.log").write_text(xid("08:00:00", 79, "n00003") + xid("08:30:00", 79, "n00040"))
    taken(hotspare, "n.log")
    ids = {one["id"] for one in json.loads(hotspare("incidents", "list", "--json"))["incidents"]}
    assert len(ids) == 2
    for name in ("inc-", "inc-nothing"):
        with pytest.raises(Refused) as refused:
            hotspare("incidents", "show", name)
        assert all(f"{one} (gpu_fallen_off_bus)" in str(refused.value) for one in ids)


def test_a_store_that_is_not_there_is_not_one_without_incidents(hotspare: Hotspare) -> None:
    for group in ("incidents", "actions"):
        with pytest.raises(StoreUnavailable, match=r"var/operations\.sqlite: no such file"):
            hotspare(group, "list", "--json")


@pytest.mark.parametrize(
    "arguments",
    [("incidents", "list", "--cause", "optic_degradin"), ("silences", "add", "cause=optic_degradin"),
     ("incidents", "silence", "cause=optic")],
    ids=" ".join,
)  # fmt: skip
def test_a_cause_that_is_none_is_refused_with_what_was_meant(arguments: tuple[str, ...], hotspare: Hotspare) -> None:
    with pytest.raises(Refused, match="did you mean optic_degrading"):
        hotspare(*arguments)


def test_a_silence_is_listed_and_ended(hotspare: Hotspare) -> None:
    hotspare("silences", "add", "cause=optic_degrading", "severity=ticket", "-m", "lens cleaning", "--by", "ada")
    (one,) = json.loads(hotspare("silences", "list", "--json"))["silences"]
    assert (one["by"], one["comment"]) == ("ada", "lens cleaning")
    assert one["matchers"] == [
        {"name": "cause", "value": "optic_degrading"}, {"name": "severity", "value": "ticket"}
    ]  # fmt: skip
    assert one["ends_at"] > one["starts_at"]
    assert "cause=optic_degrading severity=ticket" in hotspare("silences", "end", one["id"][:8])
    assert json.loads(hotspare("silences", "list", "--json")) == {"silences": []}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[store]\n".encode("utf-16"), "UTF-16"),
        (b"[store]\n# \xe4\n", "line 2 is not UTF-8"),
        (b"[detectors.gpu.xid]\nhold_seconds = 1\n", '[detectors."gpu.xid"]'),
        (b'[detectors."gpu.xid"]\nhold_secs = 1\n', "did you mean 'hold_seconds'? known: hold_seconds"),
    ],
)
def test_settings_that_cannot_be_read_say_how_to_write_them(content: bytes, said: str, hotspare: Hotspare) -> None:
    Path("hotspare.toml").write_bytes(content)
    with pytest.raises(SettingsError) as refused:
        hotspare("replay", "pump_failure")
    assert said in str(refused.value)


def test_a_scenario_is_not_known_by_half_its_name_but_guessed(hotspare: Hotspare) -> None:
    with pytest.raises(SourceError, match=r"did you mean pdu_cascade\?"):
        hotspare("replay", "pdu_cascad")


def test_a_decoder_is_named_once(hotspare: Hotspare) -> None:
    Path("cut.sor").write_bytes(b"Map\x00\xc8\x00\x40\x00")
    with pytest.raises(SourceError, match=r"^cut\.sor: SOR: (?!SOR)"):
        hotspare("ingest", "--from", "cut.sor")


def test_the_rule_of_exit_codes_is_the_same_in_the_help_and_in_the_readme() -> None:
    assert EXITS in " ".join((ROOT / "README.md").read_text().split())
