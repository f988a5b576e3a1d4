"""A real browser for tests of pages: headless Chromium, driven without any network.

    with browser(width=390, height=844, dark=True) as page:
        page.open(tmp_path / "page.html")
        assert page.console_errors() == page.overflowing() == page.network_requests() == []

A start takes about half a second; `page.emulate(width=…)` and another `page.open` cost a tenth.
"""

from __future__ import annotations

import base64
import functools
import io
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pypdf import PdfReader
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.common.print_page_options import PrintOptions
from selenium.webdriver.remote.webelement import WebElement

# Chrome stands first: where CI machines have both, only Chrome may use its sandbox there.
BROWSERS = ("google-chrome", "chromium", "chromium-browser")
FLAGS = (
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-breakpad",
    # A page that asks for the network must not get it, whatever proxy the machine has.
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
PHONE_WIDTH = 600  # below it the screen is a phone's: touch, overlay scrollbars, viewport meta
LOCAL_SCHEMES = frozenset({"file", "data", "blob", "about", "chrome"})
KEYS = {
    "Tab": Keys.TAB,
    "Enter": Keys.ENTER,
    "Space": Keys.SPACE,
    "Escape": Keys.ESCAPE,
    "Home": Keys.HOME,
    "End": Keys.END,
    "PageUp": Keys.PAGE_UP,
    "PageDown": Keys.PAGE_DOWN,
    "ArrowUp": Keys.ARROW_UP,
    "ArrowDown": Keys.ARROW_DOWN,
    "ArrowLeft": Keys.ARROW_LEFT,
    "ArrowRight": Keys.ARROW_RIGHT,
    "Backspace": Keys.BACKSPACE,
    "Delete": Keys.DELETE,
    "Shift": Keys.SHIFT,
    "Control": Keys.CONTROL,
    "Alt": Keys.ALT,
}


class TabStop(NamedTuple):
    """One element that the Tab key reached."""

    where: str  # a CSS selector that finds it, such as `main#top > a:nth-of-type(2)`
    text: str  # its accessible words: aria-label, else its text or value, cut to 60 characters
    indicator: bool  # an outline or shadow shows while it has the focus, and only then


class Page:
    """One browser tab; made by `browser`."""

    def __init__(self, driver: WebDriver) -> None:
        self.driver = driver
        self._console: list[str] = []
        self._requests: list[str] = []
        self._width = 0
        self._javascript = True

    # -- opening and looking ---------------------------------------------------------------------

    def emulate(
        self, *, width: int, height: int = 844, dark: bool = False, javascript: bool = True
    ) -> None:
        """Makes the screen another one; scripts change from the next `open` on."""
        phone = width < PHONE_WIDTH
        self._cdp(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        self._cdp("Emulation.setTouchEmulationEnabled", enabled=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._cdp("Emulation.setEmulatedMedia", features=[scheme])
        self._cdp("Emulation.setScriptExecutionDisabled", value=not javascript)
        self._width, self._javascript = width, javascript

    def open(self, path: str | Path) -> None:
        """Loads a file and waits for its fonts and first frame; what was logged before is gone."""
        self._read_logs()
        self._console.clear()
        self._requests.clear()
        self.driver.get(Path(path).resolve().as_uri())
        if self._javascript:
            self.driver.execute_async_script(
                "const done = arguments[0];"
                "document.fonts.ready.then(() => requestAnimationFrame(() => setTimeout(done)));"
            )

    def js(self, script: str, *arguments: object) -> Any:
        """What the script returns, as in `page.js("return document.title")`."""
        return self.driver.execute_script(script, *arguments)

    def all(self, css: str) -> list[WebElement]:
        """Every element that the selector finds."""
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def text(self, css: str) -> str:
        """The first such element's text as it is shown (display, text-transform, line breaks)."""
        return str(
            self.js("return arguments[0].innerText ?? arguments[0].textContent", self._one(css))
        )

    # -- hands -----------------------------------------------------------------------------------

    def press(self, *keys: str) -> None:
        """Real key presses one after another: `"Tab"`, `"Shift+Tab"`, `"ArrowDown"`, `"a"`."""
        actions = ActionChains(self.driver, duration=0)
        for key in keys:
            *held, last = key.split("+") if len(key) > 1 else [key]
            for name in held:
                actions.key_down(key_code(name))
            actions.send_keys(key_code(last))
            for name in reversed(held):
                actions.key_up(key_code(name))
        actions.perform()

    def hover(self, css: str) -> None:
        """Moves the mouse over the first such element."""
        element = self._one(css)
        self.js("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
        ActionChains(self.driver, duration=0).move_to_element(element).perform()

    def click(self, css: str) -> None:
        """Clicks on the first such element; fails where something else covers it."""
        self._one(css).click()

    # -- findings --------------------------------------------------------------------------------

    def console_errors(self) -> list[str]:
        """Warnings and errors since `open`: the console's, uncaught exceptions, broken policies."""
        self._read_logs()
        return list(self._console)

    def network_requests(self) -> list[str]:
        """Addresses outside of this machine that the page asked for since `open`, even in vain."""
        self._read_logs()
        # These two open connections without a request that the log would show.
        hints = self.js(
            "return [...document.querySelectorAll('[rel~=preconnect], [rel~=dns-prefetch]')]"
            ".map(link => link.href)"
        )
        return [
            url for url in [*self._requests, *hints] if urlsplit(url).scheme not in LOCAL_SCHEMES
        ]

    def overflowing(self) -> list[str]:
        """What does not fit: sideways scrolling, boxes outside of the screen, text cut off.

        Content of a box that scrolls by itself, what is hidden, and text that ends in an ellipsis
        are all right.
        """
        return self.js(page_script("overflow.js"), self._width)

    def tab_stops(self, limit: int = 100) -> list[TabStop]:
        """Presses Tab from the top of the page until the focus leaves it, or `limit` times."""
        script = page_script("focus.js")
        self.js(script, "start")
        for _ in range(limit):
            self.press("Tab")
            if not self.js(script, "step"):
                break
        return [TabStop(**stop) for stop in self.js(script, "end")]

    # -- paper -----------------------------------------------------------------------------------

    def screenshot(self, path: str | Path) -> None:
        """Writes what the screen shows, as PNG."""
        Path(path).write_bytes(self.driver.get_screenshot_as_png())

    def full_screenshot(self, path: str | Path) -> None:
        """Writes the page from top to bottom, as PNG."""
        size = self._cdp("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self._cdp(
            "Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip
        )
        Path(path).write_bytes(base64.b64decode(shot["data"]))

    def printed_pdf(self, path: str | Path) -> None:
        """Writes the page as it is printed on A4, as PDF."""
        Path(path).write_bytes(self._print())

    def printed_text(self) -> str:
        """The text of the page as it is printed on A4, pages one after another."""
        pages = PdfReader(io.BytesIO(self._print())).pages
        return "\n".join(sheet.extract_text() for sheet in pages)

    # -- inside ----------------------------------------------------------------------------------

    def _one(self, css: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def _cdp(self, command: str, **arguments: object) -> dict[str, Any]:
        return self.driver.execute_cdp_cmd(command, arguments)

    def _print(self) -> bytes:
        options = PrintOptions()
        options.page_width, options.page_height = 21.0, 29.7  # cm
        return base64.b64decode(self.driver.print_page(options))

    def _read_logs(self) -> None:
        """Takes over what was logged since the last time; the driver forgets what it gave."""
        for entry in self.driver.get_log("browser"):
            if entry["level"] in ("WARNING", "SEVERE"):
                self._console.append(f"{entry['level']} {entry['source']}: {entry['message']}")
        for entry in self.driver.get_log("performance"):
            event = json.loads(entry["message"])["message"]
            if event["method"] == "Network.requestWillBeSent":
                self._requests.append(event["params"]["request"]["url"])
            elif event["method"] in ("Network.webSocketCreated", "Network.webTransportCreated"):
                self._requests.append(event["params"]["url"])


@contextmanager
def browser(
    *, width: int = 1280, height: int = 844, dark: bool = False, javascript: bool = True
) -> Generator[Page, None, None]:
    """A browser with an empty profile; nothing of it is left afterwards.

    Args:
        width: CSS pixels; below 600 the screen is a phone's with touch and two dots a pixel.
        height: CSS pixels.
        dark: what the page is told about the preferred colours.
        javascript: False stops the page's own scripts; those of the tests still run.

    Yields:
        The tab.

    Raises:
        RuntimeError: there is no Chromium or no chromedriver.
    """
    chrome, chromedriver = find_browser()
    # The folder's name stays short: Chromium's sockets in it may not have long paths.
    folder = Path(tempfile.mkdtemp(prefix="page-"))
    homes = ("HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")
    environment = {**os.environ, **dict.fromkeys(homes, str(folder))}
    # A session of its own, so that whatever hangs at the end can be ended as one group.
    service = Service(chromedriver, env=environment, popen_kw={"start_new_session": True})
    try:
        driver = WebDriver(options=options(chrome, folder / "profile"), service=service)
        try:
            driver.set_page_load_timeout(30)
            page = Page(driver)
            page.emulate(width=width, height=height, dark=dark, javascript=javascript)
            yield page
        finally:
            driver.quit()
    finally:
        if (process := getattr(service, "process", None)) is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        remove(folder)


def options(chrome: str, profile: Path) -> Options:
    made = Options()
    made.binary_location = chrome
    for flag in FLAGS:
        made.add_argument(flag)
    if os.geteuid() == 0:
        made.add_argument("--no-sandbox")  # Chromium's sandbox refuses to work for root
    made.add_argument(f"--user-data-dir={profile}")
    # Else Chromium loads its own start page, which takes longer than ours.
    blank = {"session.restore_on_startup": 4, "session.startup_urls": ["about:blank"]}
    made.add_experimental_option("prefs", blank)
    made.add_experimental_option("perfLoggingPrefs", {"enableNetwork": True, "enablePage": False})
    made.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return made


def find_browser() -> tuple[str, str]:
    """The paths of a browser and its driver; of several browsers, one of the driver's version."""
    chromedriver = shutil.which("chromedriver")
    browsers = [path for name in BROWSERS if (path := shutil.which(name))]
    if not browsers or chromedriver is None:
        lacking = [] if browsers else ["browser"]
        lacking += [] if chromedriver else ["chromedriver"]
        raise RuntimeError(
            f"tests of pages: found no {' and no '.join(lacking)} on PATH. Allowed: "
            f"{', '.join(BROWSERS)}, and chromedriver. Install both (Debian: apt-get install "
            "chromium chromium-driver), or run scripts/system-packages.sh test."
        )
    if len(browsers) == 1:
        return browsers[0], chromedriver
    fitting = [path for path in browsers if major(path) == major(chromedriver)]
    return (fitting or browsers)[0], chromedriver


@functools.cache
def major(program: str) -> str:
    """The first number of `program --version`, or nothing."""
    run = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"\d+", run.stdout)
    return found.group() if found else ""


def key_code(name: str) -> str:
    if len(name) == 1:
        return name
    if name not in KEYS:
        raise ValueError(
            f"Page.press: found key {name!r}. Allowed: one character or {', '.join(KEYS)}. "
            "Join keys that are held with +, as in Shift+Tab."
        )
    return KEYS[name]


@functools.cache
def page_script(name: str) -> str:
    """A script for pages, after the helpers that all of them use."""
    folder = Path(__file__).parent / "in_page"
    return (folder / "common.js").read_text("utf-8") + (folder / name).read_text("utf-8")


def remove(folder: Path) -> None:
    """Removes the folder, also while the browser's last processes still write into it."""
    for _ in range(40):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.05)
    shutil.rmtree(folder)
