"""The picture of a panel: a figure that is drawn once and then only changed."""

from __future__ import annotations

import io
from collections.abc import Iterable

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from labkit.figures import style

_RATIO = 1.5  # picture pixels per page pixel: sharp on a projector, cheap enough to encode


class Canvas:
    """A figure that is drawn once; later pictures copy its background and paint only the artists that moved."""

    def __init__(self, draw, result, size):
        with mpl.rc_context(style.RC):
            self.figure = Figure(figsize=size, dpi=96 * _RATIO, layout="constrained")
            self._agg = FigureCanvasAgg(self.figure)
            self._update = draw(self.figure, result)
        if self._update is not None and not callable(self._update):
            raise ValueError(f"draw must return a function update(result), or None, not {self._update!r:.60}")
        self._background = self._frame = None

    def paint(self, result) -> bytes:
        """The picture of `result` as PNG."""
        with mpl.rc_context(style.RC):
            moved = self._update(result) if self._update is not None else None
            moved = list(moved) if isinstance(moved, Iterable) else moved
            if moved is not None and not (isinstance(moved, list) and all(isinstance(each, Artist) for each in moved)):
                raise ValueError(f"update must return a list of the artists that it moved, or None, not {moved!r:.60}")
            moving = sorted(moved or (), key=lambda artist: artist.get_zorder())
            fresh = [artist for artist in moving if not artist.get_animated()]
            for artist in fresh:
                artist.set_animated(True)
            frame = self._fixed_parts()
            if not moving or fresh or frame != self._frame:
                for ax in self.figure.axes:  # the layout starts afresh, so that equal states give equal pictures, to the pixel
                    if ax.get_subplotspec() is not None:
                        ax.set_subplotspec(ax.get_subplotspec())
                self._agg.draw()
                self._background, self._frame = self._agg.copy_from_bbox(self.figure.bbox), self._fixed_parts()
            else:
                self._agg.restore_region(self._background)
            for artist in moving:
                self.figure.draw_artist(artist)
        picture = Image.frombuffer("RGBA", self._agg.get_width_height(), self._agg.buffer_rgba()).convert("RGB")
        stream = io.BytesIO()
        picture.quantize(palette=style.picture_palette(), dither=Image.Dither.NONE).save(stream, "png", compress_level=1)
        return stream.getvalue()

    def _fixed_parts(self):
        """Limits and texts of the background (those that `update` does not return): a change of any asks for a full draw."""
        axes = [(ax.get_xlim(), ax.get_ylim(), ax.get_xscale(), ax.get_yscale(), ax.get_title("left"), ax.get_title(),
                 ax.get_xlabel(), ax.get_ylabel(), ax.get_visible(),
                 [text.get_text() for text in ax.texts if not text.get_animated()]) for ax in self.figure.axes]
        legends = [*self.figure.legends, *filter(None, (ax.get_legend() for ax in self.figure.axes))]
        return axes, [text.get_text() for legend in legends for text in legend.get_texts()]
