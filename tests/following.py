from playwright.sync_api import Locator


def follow(link: Locator) -> None:
    """Follow a link or a button to another page, and wait until that page is loaded.

    Only assertions of `expect` wait by themselves: a count, a text or a script would meet either page, or none.
    """
    with link.page.expect_navigation():
        link.click()
