from playwright.sync_api import Locator, Page, expect


def draw_all(page: Page) -> None:
    page.locator("details:has([id^=late-], [data-figure])").evaluate_all(
        "all => all.forEach((fold) => (fold.open = true))"
    )
    for late in page.locator("[id^=late-]:has(.coming)").evaluate_all("all => all.map((box) => box.id)"):
        page.locator(f"#{late}").scroll_into_view_if_needed()
        expect(page.locator(f"#{late} .coming")).to_have_count(0)
    expect(page.locator("[data-figure]:not(:has(.main-svg, canvas))")).to_have_count(0)


def follow(link: Locator) -> None:
    """Click a link or a button and wait until the next page is loaded.

    Only assertions of `expect` wait; a count, a text or a script might run on either page.
    """
    with link.page.expect_navigation():
        link.click()
