"""The ledger: every figure of the lecture notes whose notebook exists is computed anew, within its tolerance."""

import itertools
import re
from pathlib import Path

import pytest

from labkit import ledger, reference

ROOT = Path(__file__).parents[1]
FIGURES = reference.lecture_figures()
BUILT = {int(path.name[:2]) for path in (ROOT / "notebooks").glob("0*.ipynb")}

# Rows that cannot be recomputed, each with its reason.
EXEMPT = {
    "l14-thr-shared": "words, not a number ('almost unchanged'); notebook 1 computes 0.66x to 3.64x, by kernel and users",
    "l14-code04-time": "the run time of a program on its author's machine; benchmarks/cartridge_training.py times ours on yours",
}


def due():
    rows = FIGURES[FIGURES["notebook"].isin(BUILT) & ~FIGURES["setting"]]
    return [row for row in rows.itertuples() if row.id not in EXEMPT]


def test_every_figure_has_an_entry():
    missing = [row.id for row in due() if row.id not in ledger.entries()]
    assert not missing, f"no entry in data/ledger.toml: {missing}"
    assert set(EXEMPT) <= set(FIGURES["id"])


@pytest.mark.parametrize("row", due(), ids=lambda row: row.id)
def test_figure(row):
    entry = ledger.entries()[row.id]
    here = entry.value()
    said = row.words if row.value != row.value else f"{row.relation} {row.value}"
    assert entry.agrees(row, here), f"{row.quantity}: the lecture notes say {said}, here {here} {row.unit}"


def test_answers_of_exercises_stay_out_of_the_tables():
    for notebook in BUILT:
        shown = ledger.compare(notebook).frame
        for figure_id, entry in ledger.entries().items():
            row = FIGURES[FIGURES["id"] == figure_id].iloc[0]
            if entry.exercise and row["notebook"] == notebook:
                assert f"{row['lecture']}: {row['quantity']}" not in shown.index


def test_the_readme_shows_the_counts():
    settings = int(FIGURES["setting"].sum())
    counts = re.search(r"(\d+)\s+figures.*?(\d+)\s+restate.*?(\d+)\s+are\s+computed\s+anew.*?(\d+)\s+exempt", (ROOT / "README.md").read_text(), re.S)
    assert counts, "README.md lacks its sentence on the ledger"
    assert [int(n) for n in counts.groups()] == [len(FIGURES), settings, len(due()), len(EXEMPT)]


def test_the_file_stands():
    assert ledger.problems() == {} and ledger.verify() == len(ledger.entries())


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Put a text in the place of data/ledger.toml."""
    figures, numbers = FIGURES.copy(), itertools.count()
    monkeypatch.setattr(reference, "lecture_figures", lambda: figures)

    def write(text):
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        (folder / "ledger.toml").write_text(text, encoding="utf-8")
        monkeypatch.setattr(reference, "data_folder", lambda: folder)
    return write


@pytest.mark.parametrize("text, message", [
    ('[l14-kv-9b]\nhere = "1"', r"\[l14-kv-9b\]: no such lecture figure; did you mean l14-kv-8b"),
    ('[l14-kv-8b]\nthere = "1"', "'there' is none of its fields, which are here, tolerance, absolute, paper, exercise; did you mean here"),
    ('[l14-kv-8b]\nthere = "1"', "'here' is missing"), ('[l14-kv-8b]\nhere = "1 +"', r"\[l14-kv-8b\]: here='1 \+' is not a Python expression"),
    ('[l14-kv-8b]\nhere = "1"\ntolerance = -1', "at least 0"), ('[l14-kv-8b]\nhere = "1"\ntolerance = inf', "finite"),
    ("[l14-kv-8b]\nhere = 1", "here=1 must be a text"), ('[l14-kv-8b]\nhere = "kv_cots.Model"', "'kv_cots' is neither.*did you mean kv_cost"),
    ("[l14-kv-8b]\ntolerance = 1", "'here' is missing"), ('[l14-kv-8b]\nhere = "1"\nexercise = "yes"', "exercise='yes'"),
    ("l14-kv-8b = 5", "l14-kv-8b.: 5 is no table"), ('[l14-kv-8b]\nhere = "1 / 0"', "l14-kv-8b.*fails: ZeroDivisionError"),
    ('[l14-kv-8b]\nhere = "exit()"', "l14-kv-8b.*fails: SystemExit"), ('[l14-kv-8b]\nhere = "math"', "l14-kv-8b.*fails: TypeError"),
    ('[l14-kv-8b]\nhere = "3"', "l14-kv-8b.: here gives 3, the lecture notes say 128 KiB"),
])
def test_a_wrong_entry_is_named(put, text, message):
    put(text)
    with pytest.raises(ValueError, match=message):
        ledger.verify()


def test_a_file_that_is_none(put):
    put("[l14-kv-8b")
    for asked in (ledger.entries, ledger.problems, ledger.verify, lambda: ledger.compare(1)):
        with pytest.raises(ValueError, match="ledger.toml is not TOML"):
            asked()


GOOD = '[l14-prefill-250]\nhere = "1000 * kv_cost.Roofline(\'Llama-3-8B\', \'H100 SXM\').prefill_seconds(320)"\nabsolute = 0.5\n'


def test_one_bad_entry_fails_alone(monkeypatch):
    bad = {"l14-kv-8b": "ledger.toml, [l14-kv-8b]: 'tolernace' is none of its fields"}
    monkeypatch.setattr(ledger, "_read", lambda path: ({"l14-prefill-250": ledger.Entry("20"), "l14-prefill-128k": ledger.Entry("1 / 0")}, bad))
    here = ledger.compare(1).frame["here"]
    assert here.iloc[0] == bad["l14-kv-8b"] and "20" in here.to_list() and any("ZeroDivisionError" in cell for cell in here)


def test_all_faults_are_told_at_once(put):
    put(GOOD + '[l14-kv-8b]\nhere = "1 +"\ntolernace = 1\nabsolute = -1\n[l14-x]\nhere = "1"\n[l14-prefill-128k]\nhere = "1 / 0"\n')
    assert list(ledger.entries()) == ["l14-prefill-250", "l14-prefill-128k"] and list(ledger.problems()) == ["l14-kv-8b", "l14-x"]
    with pytest.raises(ValueError) as caught:
        ledger.verify()
    told = str(caught.value).splitlines()
    assert len(told) == 5 and all(any(words in line for line in told) for words in
                                  ("'tolernace'", "1 +", "absolute=-1", "[l14-x]: no such", "[l14-prefill-128k]: here='1 / 0' fails"))


@pytest.mark.parametrize("notebook", [0, 8, "1", True, None, 1.5])
def test_there_are_seven_notebooks_to_compare(notebook):
    with pytest.raises(ValueError, match="must be a whole number from 1 to 7"):
        ledger.compare(notebook)
