"""The Chromium of this machine, and how it draws where there is no graphics card."""

import shutil

# The first has no windows, which a test pays for and does not look at.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)
# The processor draws what graphics would.
ARGUMENTS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
