"""The tables: found, whole, parseable, and safe to change by whoever asked for them."""

import pytest

from labkit import reference

TABLES = [reference.models, reference.gpus, reference.links, reference.datasets, reference.paper_results, reference.lecture_figures]
KINDS = {"exact arithmetic", "simulation", "assumption", "paper reports", "lecture reports"}
RELATIONS = {"=", "about", "at least", "at most", "above", "below", "range", "change", "words"}


@pytest.mark.parametrize("table", TABLES)
def test_each_caller_gets_a_copy(table):
    first = table()
    before = first.copy()
    first.iloc[:, 0] = "spoilt"
    assert table().equals(before)


@pytest.mark.parametrize("table", TABLES)
def test_rows_are_whole(table):
    rows = table()
    assert len(rows) and not rows.duplicated().any()
    if "kind" in rows:
        assert set(rows["kind"]) <= KINDS
    if "source" in rows:
        assert (rows["source"] != "").all()
    for names in (rows[column] for column in ("name", "id") if column in rows):
        assert names.is_unique and (names != "").all()


@pytest.mark.parametrize("table", [reference.models, reference.gpus, reference.links])
def test_no_alias_means_two_rows(table):
    rows = table()
    names = [name.lower() for entry in rows["name"] + "|" + rows["aliases"] for name in entry.split("|") if name]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("table", [reference.paper_results, reference.lecture_figures])
def test_values_are_numbers_or_words(table):
    rows = table()
    assert rows["value"].dtype == rows["value_to"].dtype == float
    assert set(rows["relation"]) <= RELATIONS
    assert (rows["value"].isna() == (rows["relation"] == "words")).all()
    assert ((rows["words"] != "") == (rows["relation"] == "words")).all()
    assert (rows["value_to"].notna() == rows["relation"].isin(["range", "change"])).all()
    ranges = rows[rows["relation"] == "range"]
    assert (ranges["value"] < ranges["value_to"]).all()


def test_lecture_figures():
    rows = reference.lecture_figures()
    assert len(rows) == 225 and set(rows["lecture"]) == {"L11", "L14"}
    assert set(rows["notebook"]) == set(range(1, 8)) and rows["setting"].dtype == bool
    assert len(reference.lecture_figures("L11")) + len(reference.lecture_figures("l14")) == 225
    assert reference.lecture_figure("l14-thr-drop") == 107
    assert reference.lecture_figure("l14-thr-shared") == "almost unchanged"
    assert reference.lecture_figure("l11-m-warn-gain") == 0.08


def test_paper_results():
    assert set(reference.paper_results()["paper"]) == {"MemGPT", "mem0", "CacheBlend", "Cartridges", "ACE"}
    assert set(reference.paper_results("memgpt")["paper"]) == {"MemGPT"}


@pytest.mark.parametrize("system", ["Mem0", "Mem0g", "OpenAI", "Zep", "LangMem", "A-Mem"])
def test_mem0_category_names_are_permuted(system):
    """Table 1's scores weighted with LOCOMO's question counts give Table 2's overall under the paper's names only."""
    rows = reference.paper_results("mem0")
    overall = rows[(rows["method"] == system) & (rows["metric"] == "overall J")]["value"].item()
    scores = rows[(rows["method"].str.strip("*") == system) & (rows["place"] == "Table 1") & rows["metric"].str.endswith("J")]

    def weighted(counts):
        score = {name: scores[scores["dataset"].str.contains(name)]["value"].item() for name in counts}
        return sum(score[name] * count for name, count in counts.items()) / sum(counts.values())

    assert weighted({"single-hop": 282, "temporal": 321, "multi-hop": 96, "open-domain": 841}) == pytest.approx(overall, abs=0.011)
    assert weighted({"multi-hop": 282, "temporal": 321, "open-domain": 96, "single-hop": 841}) != pytest.approx(overall, abs=0.5)


@pytest.mark.parametrize("call, words", [
    (lambda: reference.lecture_figure("l14-thr-dorp"), "did you mean.*l14-thr-drop"),
    (lambda: reference.lecture_figure(3), "no lecture figure is called 3"),
    (lambda: reference.lecture_figures("L12"), "no lecture is called 'L12'"),
    (lambda: reference.paper_results("Memo"), "did you mean.*mem0"),
    (lambda: reference.paper_results("zzzz"), "there are MemGPT"),
])
def test_unknown_names_suggest_the_nearest(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_tables_are_found_in_a_wheel_and_in_a_checkout(tmp_path, monkeypatch):
    package = tmp_path / "labkit"
    (package / "data").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "models.csv").touch()
    monkeypatch.setattr(reference, "_HERE", package)
    find = reference.data_folder.__wrapped__
    assert find() == tmp_path / "data"
    (package / "data" / "models.csv").touch()
    assert find() == package / "data"
    (package / "data" / "models.csv").unlink()
    (tmp_path / "data" / "models.csv").unlink()
    with pytest.raises(FileNotFoundError, match="models.csv"):
        find()
