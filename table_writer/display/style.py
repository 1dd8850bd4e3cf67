"""How reports look in a notebook: one style sheet that reaches nothing outside them.

Text has the colour of its own surroundings: JupyterLab's or VS Code's where they say, else the system's pair of colours
for text and page, which follows the scheme that the reader prefers. Every other colour is half transparent, so that it
is right on any of them, and says nothing that a word does not say as well.
"""

from __future__ import annotations

from typing import Final

__all__ = ["IGNORED_BY_MATH", "STYLE", "tone"]

IGNORED_BY_MATH: Final = (
    "tex2jax_ignore mathjax_ignore"  # else Jupyter would set what stands between two $ as a formula
)

TONES: Final = {
    "good": frozenset({"ok", "passed", "published"}),
    "bad": frozenset({"abandoned", "dead", "error", "failed (error)"}),
    "doubt": frozenset({"expired", "failed (warn)", "in doubt", "warning"}),
    "add": frozenset({"add", "added"}),
    "more": frozenset({"append", "appended"}),
    "other": frozenset({"replace", "replaced"}),
    "less": frozenset({"dropped", "emptied", "empty"}),
}
SIGNS: Final = {"good": "✓", "bad": "✗", "doubt": "!", "add": "+", "more": "»", "other": "~", "less": "−"}
COLOURS: Final = {  # red, green, blue: each against white and against black at least 3:1, for the signs
    "good": "22,146,84",
    "bad": "222,62,62",
    "doubt": "190,122,10",
    "add": "22,146,84",
    "more": "22,146,84",
    "other": "52,120,220",
    "less": "190,122,10",
}


def tone(state: str) -> str:
    """Return the class of a word that says how something ended; ``plain`` for words of no tone.

    Examples
    --------
    >>> tone("published"), tone("in doubt"), tone("running")
    ('good', 'doubt', 'plain')
    """
    return next((name for name, words in TONES.items() if state in words), "plain")


def _of_tones() -> str:
    return "".join(
        f".table-writer .tw-{name}{{background:rgba({COLOURS[name]},.13);border-color:rgba({COLOURS[name]},.55)}}"
        f".table-writer .tw-{name}::before{{content:'{sign}\\a0';content:'{sign}\\a0'/'';"
        f"color:rgb({COLOURS[name]});font-weight:700}}"
        for name, sign in SIGNS.items()
    )


STYLE: Final = (
    # the host's own words on its theme come first; without any, the reader's preference
    ".table-writer{color-scheme:light dark}"
    "body[data-jp-theme-light=true] .table-writer,body.vscode-light .table-writer,"
    "[data-theme=light] .table-writer,html[theme=light] .table-writer{color-scheme:light}"
    "body[data-jp-theme-light=false] .table-writer,body.vscode-dark .table-writer,"
    "[data-theme=dark] .table-writer,html[theme=dark] .table-writer{color-scheme:dark}"
    ".table-writer{color:var(--jp-content-font-color1,var(--vscode-editor-foreground,CanvasText));"
    "background:var(--jp-layout-color0,var(--vscode-editor-background,Canvas));"
    "font:13px/1.5 var(--jp-ui-font-family,var(--vscode-font-family,system-ui,sans-serif));"
    "padding:.6em .8em;border-radius:6px;text-align:left;overflow-wrap:anywhere}"
    ".table-writer .tw-head{margin:0 0 .5em;font-size:1.05em}"
    ".table-writer .tw-head bdi{font-weight:700}"
    ".table-writer .tw-scroll{overflow-x:auto;margin:.4em 0 .7em}"
    # three times the class: notebooks style every table there is, by four names
    ".table-writer.table-writer.table-writer table{border-collapse:collapse;margin:0;width:auto;font-size:1em;"
    "table-layout:auto;border:0;display:table}"
    ".table-writer.table-writer.table-writer caption{caption-side:top;text-align:left;font-weight:600;"
    "padding:0 .1em .2em;color:inherit;white-space:nowrap}"
    ".table-writer.table-writer.table-writer tr{background:none;border:0}"
    ".table-writer.table-writer.table-writer :is(th,td){padding:.25em .8em;vertical-align:top;white-space:nowrap;"
    "max-width:none;color:inherit;background:none;border:0;border-bottom:1px solid rgba(128,128,128,.28);"
    "font-size:1em;line-height:1.5;font-variant-numeric:tabular-nums}"
    ".table-writer.table-writer.table-writer thead th{font-weight:600;border-bottom:2px solid rgba(128,128,128,.5)}"
    ".table-writer.table-writer.table-writer tbody tr:hover{background:rgba(128,128,128,.12)}"
    ".table-writer .tw-long{white-space:normal;width:max-content;max-width:46em;max-height:6em;overflow:auto}"
    ".table-writer .tw-state{display:inline-block;padding:0 .55em;border:1px solid rgba(128,128,128,.45);"
    "border-radius:1em}"
    ".table-writer .tw-line{margin:.1em 0;opacity:.85}"
    ".table-writer .tw-trouble{opacity:1;font-weight:600;border-left:3px solid rgb(222,62,62);padding-left:.5em}"
) + _of_tones()
