"""The Chromium of this machine, and its arguments for drawing without a graphics card."""

import shutil

# The first starts fastest, because it has no windows.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)
# Draw WebGL on the processor.
ARGUMENTS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
