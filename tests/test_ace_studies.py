"""The studies behind the ACE notebook's panels against second ways."""

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from labkit import ace, ace_studies
from labkit.figures import ace as figures
from labkit.figures.canvas import Canvas


@pytest.mark.parametrize("sections", ace_studies.SECTIONS)
def test_what_the_cache_holds_of_a_playbook(sections):
    """Character by character instead of by the common prefix; lines and sizes tell the same."""
    for rendering, counters in ace_studies.RENDERINGS.items():
        steps, prompts = ace_studies._run(sections, True)
        for step in range(2, len(ace_studies.TASKS) + 1):
            result = ace_studies.playbook_steps(step, sections)
            old, new = prompts[rendering][step - 2 : step]
            same = next(at for at, (a, b) in enumerate(zip(old, new)) if a != b)
            size = result.sizes[rendering].loc[step]
            assert (size["prompt"], size["hit"]) == (-(-len(new) // 4), same // 4)
            held = [cached for _, cached in result.lines[rendering]]
            assert held == sorted(held, reverse=True)  # a prefix of the lines
            assert sum(len(line) for line, cached in result.lines[rendering] if cached) <= same
            assert steps[step - 1].shown.render(counters) in new


def test_one_section_and_metadata_only_breaks_nowhere_but_at_the_end():
    """Where nothing is deleted, every prompt keeps the whole of the playbook before it."""
    steps, prompts = ace_studies._run("one section", False)
    gone = [n for n, step in enumerate(steps) if step.playbook.retired != step.shown.retired]
    for n, (step, new) in enumerate(zip(steps, prompts["counters as metadata"][1:])):
        if n not in gone:
            assert new.startswith(ace_studies.SYSTEM + step.shown.render(counters=False).rstrip())


def test_what_changed_says_all_that_did():
    first, wrong = ace_studies.playbook_steps(1), ace_studies.playbook_steps(14)
    assert first.changes == [] and "sai-00005 deleted" in wrong.changes
    assert ace_studies.playbook_steps(11).changes == ["sai-00007 merged into sai-00001"]
    for bad in (0, 17, 2.0, True):
        with pytest.raises(ValueError, match="step must be"):
            ace_studies.playbook_steps(bad)
    with pytest.raises(ValueError, match="sections must be one of three sections"):
        ace_studies.playbook_steps(1, "none")


@pytest.mark.parametrize("settings", [dict(), dict(batch=16, reflector_output=70, drop_every=10), dict(p_add=0.0, touched=0)])
def test_seconds_by_cause_add_up(settings):
    result = ace_studies.playbook_cost("counters", **settings)
    names = ("p_add", "touched", "drop_every")
    trace = ace.even_trace(**{name: settings[name] for name in names if name in settings})
    for mode in ace.MODES:
        s = ace.PlaybookSettings(mode=mode, **{name: v for name, v in settings.items() if name not in names})
        run = ace.serve_playbook(trace, s)
        assert result.seconds.loc[mode].sum() == pytest.approx(run.gpu_seconds)
        assert (result.seconds.loc[mode] >= -1e-9).all() and result.served[mode] == run
    np.testing.assert_allclose(result.seconds["answer"], result.seconds.loc["append", "answer"])  # same prompts, same answers


def test_panels_end_where_the_studies_do():
    result = ace_studies.learning("append", 0.9, budget=800, prune=True, arm="offline")
    settings = ace.LearningSettings(budget=800, prune=True)
    study = ace.learning_study("append", 0.9, settings, "offline")
    assert result.end.loc["append", "accuracy"] == pytest.approx(study["accuracy"].iloc[-30:].mean())
    assert result.end.loc["append", "gpu_seconds"] == pytest.approx(study.loc[~study["training"], "gpu_seconds"].sum())
    sweep = ace_studies.catching_up(1 / 60).sweep
    alone = ace.simulate([ace.Condition("rewrite", 1.0, ace.LearningSettings(survival=0.99, collapse=1 / 60))])
    row = sweep.loc[np.isclose(sweep["survival"], 0.99), "rewrite"].item()
    assert row == pytest.approx(alone["accuracy"][-30:].mean())
    with pytest.raises(ValueError, match="way must be one of none"):
        ace_studies.learning("best")


@pytest.mark.parametrize("study, said", [
    (ace_studies.playbook_steps, "cached with counters in the text"), (ace_studies.playbook_cost, "rewrite 7,603.4"),
    (ace_studies.learning, "append 86.0%"), (ace_studies.catching_up, "-14.9"),
])
def test_a_result_that_is_pasted_into_a_cell_is_one_line(study, said):
    assert said in repr(study()) and "\n" not in repr(study()) and len(repr(study())) < 200


def test_the_picture_of_a_task_does_not_tell_of_later_ones():
    figure = Figure(layout="constrained")
    update = figures.draw_playbook_steps(figure, ace_studies.playbook_steps())
    for step in (1, 7, 16):
        moved = update(ace_studies.playbook_steps(step))
        assert [len(line.get_xdata()) for line in moved if isinstance(line, Line2D) and line.get_marker() in "os"] == [step, step]


def test_lines_of_the_prompt_stay_in_their_column_and_use_its_width():
    """The drawn outlines against the axes, every task: none is wider, and the widest is cut no sooner than it must be."""
    canvas = Canvas(figures.draw_playbook_steps, ace_studies.playbook_steps(), (9.8, 5.6))
    for step in range(1, 17):
        canvas.paint(ace_studies.playbook_steps(step, clean=False))
        for text in (artist for ax in canvas.figure.axes for artist in ax.collections if isinstance(artist, PathCollection)):
            column = text.axes.get_window_extent().width * 72 / canvas.figure.dpi
            widths = [path.get_extents().width for path in text.get_paths()]
            assert max(widths) < column - 4 and (step < 3 or max(widths) > column - 40)


def test_a_wrong_lesson_can_be_read():
    assert ace_studies.playbook_steps(7).changes[0] == "sai-00005 added: Never send two messages on one day."


def test_descriptions_tell_the_state_that_is_shown():
    assert "first prompt" in figures.alt_playbook_steps(ace_studies.playbook_steps(1))
    looked_at = figures.alt_learning(ace_studies.learning("brief"))
    assert "short general prompt: 7" in looked_at and "25 right lessons and 1 wrong" in looked_at
    assert "goes from -14.9 to +0.0" in figures.alt_catching_up(ace_studies.catching_up())


@pytest.mark.parametrize("call, says", [
    (lambda: ace_studies.playbook_steps(clean="no"), "clean must be True or False"),
    (lambda: ace_studies.learning(reflector="no"), "reflector must be True or False"),
    (lambda: ace_studies.catching_up(collapse="never"), "collapse must be a number from 0 to 1"),
])
def test_impossible_arguments_are_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()
