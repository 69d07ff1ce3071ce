from playwright.sync_api import Locator


def follow(link: Locator) -> None:
    """Click a link or a button and wait until the next page is loaded.

    Only assertions of `expect` wait; a count, a text or a script might run on either page.
    """
    with link.page.expect_navigation():
        link.click()
