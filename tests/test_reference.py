"""The tables: found, whole, parseable, and safe to change by whoever asked for them."""

import csv
import shutil

import pytest

from labkit import reference
from labkit.kv_cost import Gpu, Model, gpu_names, model_names

TABLES = [reference.models, reference.gpus, reference.links, reference.datasets, reference.paper_results, reference.lecture_figures]
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
        assert set(rows["kind"]) <= set(reference.KINDS)
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


# ---- a teacher's new row

FILES = {"models.csv": (Model, "Mistral-7B-v0.1", reference.models), "gpus.csv": (Gpu, "H100 SXM", reference.gpus)}


@pytest.fixture
def spoil(tmp_path, monkeypatch):
    """Put the tables with some cells of one row replaced in the place of the real ones."""
    real = reference.data_folder()
    for name in FILES:
        shutil.copy(real / name, tmp_path)

    def put(file_name, **cells):
        with open(real / file_name, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        next(row for row in rows if row["name"] == FILES[file_name][1]).update(cells)
        with open(tmp_path / file_name, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)

    monkeypatch.setattr(reference, "data_folder", lambda: tmp_path)
    reference._table.cache_clear()
    yield put
    reference._table.cache_clear()


README = (reference.data_folder() / "README.md").read_text(encoding="utf-8")


def needed(file_name):
    """Columns of which data/README.md says that a row needs them."""
    section = README.partition(f"## {file_name}")[2].partition("\n## ")[0]
    return section.partition("A new row needs ")[2].partition("`source`")[0].split("`")[1::2] + ["source"]


NUMBERS = [(file_name, column) for file_name, columns in reference._NUMBERS.items() for column in columns if column != "max_positions"]
EMPTY = [(file_name, column) for file_name in FILES for column in needed(file_name) if column != "name"]


@pytest.mark.parametrize("file_name, column", NUMBERS)
@pytest.mark.parametrize("value, words", [("many", "'many' is not a number"), ("-5", "(=-5 must be|must be .* not -5$)"), ("TRUE", "'TRUE' is not a number"), ("1e999", "(=inf must be|must be .* not inf$)")])
def test_a_number_that_is_none(spoil, file_name, column, value, words):
    cls, name, _ = FILES[file_name]
    spoil(file_name, **{column: value})
    with pytest.raises(ValueError, match=f"{file_name}, row '?{name}.*{column}.*{words}"):
        cls.load(name)


@pytest.mark.parametrize("file_name, column", EMPTY)
def test_an_empty_cell_that_is_needed(spoil, file_name, column):
    cls, name, _ = FILES[file_name]
    spoil(file_name, **{column: ""})
    with pytest.raises(ValueError, match=f"{file_name}, row '{name}', column '{column}': "):
        cls.load(name)


@pytest.mark.parametrize("file_name", FILES)
def test_an_empty_cell_that_is_not(spoil, file_name):
    cls, name, table = FILES[file_name]
    for column in set(table().columns) - set(needed(file_name)) - {"name", "window", "window_layers"}:
        reference._table.cache_clear()
        spoil(file_name, **{column: ""})
        assert cls.load(name).name == name


@pytest.mark.parametrize("cells, words", [
    ({"window": ""}, "column 'window': it is empty; a number is needed, since window_layers is 32"),
    ({"state_layers": "4", "layers": "40", "state_bytes": ""}, "column 'state_bytes': it is empty; a number is needed, since state_layers is 4"),
    ({"kv_lora_rank": "512", "rope_head_dim": ""}, "column 'rope_head_dim': it is empty; a number is needed, since kv_lora_rank is 512"),
    ({"kind": "guess"}, "column 'kind': 'guess' is not one of exact arithmetic, simulation"), ({"layers": "31.5"}, "layers must be a whole number of at least 1, not 31.5"),
    ({"kv_heads": "5"}, "32 query heads cannot be shared out over 5"), ({"layers": "3"}, "are more than its 3 layers"),
])
def test_a_row_that_cannot_be(spoil, cells, words):
    spoil("models.csv", **cells)
    with pytest.raises(ValueError, match=f"models.csv, row '?Mistral-7B-v0.1.*{words}"):
        Model.load("Mistral-7B-v0.1")


def test_all_faults_of_a_row_are_told_at_once_and_the_others_load(spoil):
    before = {name: Model.load(name) for name in model_names()}, {name: Gpu.load(name) for name in gpu_names(complete=False)}
    complete = gpu_names()
    spoil("models.csv", head_dim="", layers="thirty", kind="")
    spoil("gpus.csv", bandwidth="fast", flops="")
    reference._table.cache_clear()
    with pytest.raises(ValueError) as caught:
        Model.load("Mistral-7B-v0.1")
    assert len(str(caught.value).splitlines()) == 3
    for loaded, (cls, name, _) in zip(before, FILES.values()):
        assert {other: cls.load(other) for other in loaded if other != name} == {other: row for other, row in loaded.items() if other != name}
    assert gpu_names() == [name for name in complete if name != "H100 SXM"]


@pytest.mark.parametrize("spoilt, words", [
    (lambda text: text.replace("head_dim", "head_dims", 1), "models.csv: the column 'head_dim' is missing; there are name, aliases"),
    (lambda text: text + "New,,32,32,0,0,,4096,32,8,128,,0,0,1,1,1,0,8192,bfloat16,assumption,me, myself, and I\n", "models.csv cannot be read as a table.*comma"),
    (lambda text: "", "models.csv cannot be read as a table"),
])
def test_a_table_that_is_none(spoil, spoilt, words):
    path = reference.data_folder() / "models.csv"
    path.write_text(spoilt(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(ValueError, match=words):
        Model.load("Llama-3-8B")


@pytest.mark.parametrize("spoilt, words", [
    (lambda text: text.replace("Meta-Llama-3-8B|", "Mistral-7B-v0.1|", 1), "more than one model is called.*Llama-3-8B and Mistral-7B-v0.1"),
    (lambda text: text.replace("\n", ",x\n").replace(",x\n", "\n", 1), "more cells than the header"),
])
def test_a_table_that_would_be_read_wrong_is_refused(spoil, spoilt, words):
    path = reference.data_folder() / "models.csv"
    path.write_text(spoilt(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(ValueError, match=words):
        Model.load("Mistral-7B-v0.1")


def test_a_missing_table_is_named(spoil):
    (reference.data_folder() / "gpus.csv").unlink()
    with pytest.raises(ValueError, match="gpus.csv cannot be read"):
        Gpu.load("H100 SXM")
