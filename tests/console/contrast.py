"""Which texts of a page in the browser cannot be read: buttons, links, fields and all others.

Text stands out by 4.5 to 1, large text by 3 to 1 (WCAG 2.2, 1.4.3). Colours are those that the
browser has computed, over all backgrounds behind them. Disabled controls are exempt.
"""

from __future__ import annotations

from playwright.sync_api import Page

LOOKS = tuple(
    (scheme, width, height)
    for scheme in ("light", "dark")
    for width, height in ((1280, 800), (390, 844))
)
"""Light and dark, on a desktop and on a phone: colour scheme, width and height."""

_FAINT = """() => {
  const parts = (color) => color.match(/[\\d.]+/g).map(Number);
  const over = ([r, g, b, a = 1], below, opacity = 1) =>
    [r, g, b].map((part, i) => part * a * opacity + below[i] * (1 - a * opacity));
  const light = (color) => {
    const [r, g, b] = color.map((part) =>
      part <= 10.31 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  const canvas = matchMedia("(prefers-color-scheme: dark)").matches &&
    getComputedStyle(document.documentElement).colorScheme.includes("dark")
      ? [18, 18, 18]
      : [255, 255, 255];
  const opacity = (element) =>
    element ? getComputedStyle(element).opacity * opacity(element.parentElement) : 1;
  const behind = (element) =>
    element
      ? over(parts(getComputedStyle(element).backgroundColor), behind(element.parentElement))
      : canvas;
  const contrast = (element) => {
    const ground = behind(element);
    const color = over(parts(getComputedStyle(element).color), ground, opacity(element));
    const [one, other] = [color, ground].map(light);
    return Math.max(one, other) / Math.min(one, other);
  };
  const needed = (element) => {
    const style = getComputedStyle(element), size = parseFloat(style.fontSize);
    return size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
  };
  const isControl = (one) => one.matches(
    "a[href], button, summary, input:not([type=checkbox], [type=radio]), select, textarea");
  const isShown = (one) => {
    const box = one.getBoundingClientRect();
    // What only screen readers read is one pixel large.
    return one.checkVisibility({ visibilityProperty: true }) && box.width > 1 && box.height > 1;
  };
  return [...document.querySelectorAll("body *")]
    .filter((one) => isControl(one) || [...one.childNodes].some(
      (node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim()))
    .filter(isShown)
    .filter((one) => !one.matches(":disabled, option, script, style, template, svg *"))
    .filter((one) => contrast(one) < needed(one))
    .map((one) => `${one.outerHTML.slice(0, 120)} ${contrast(one).toFixed(2)}`);
}"""


def faint_texts(page: Page) -> list[str]:
    """Return the beginning and the contrast of each element whose text is too faint."""
    found: list[str] = page.evaluate(_FAINT)
    return found


def faint_in_any_look(page: Page) -> list[str]:
    """Return what `faint_texts` finds in each of the `LOOKS`; the page then has the first one."""
    # Colours change at once.
    page.emulate_media(reduced_motion="reduce")
    found: list[str] = []
    for scheme, width, height in (*LOOKS[1:], LOOKS[0]):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": height})
        found += [f"{scheme}, {width} px: {faint}" for faint in faint_texts(page)]
    return found
