import pytest
from playwright.sync_api import expect

from app.db.models import Experiment, RunStatus
from tests.dashboards import empty_dashboard
from tests.factories import add_experiment, run_row

STUB = """
  window.shown = [];
  window.Notification = class { constructor(title, more) { window.shown.push([title, more.body]); } };
  window.Notification.requestPermission = async () => "granted";
"""


@pytest.mark.long
def test_experiment_end_notifies_once(tmp_path, empty_databases, page):
    page.add_init_script(STUB)
    with empty_dashboard(tmp_path / "notify", empty_databases) as (address, context):
        sweep = add_experiment(context, run_row(), run_row(seed=1, status=RunStatus.QUEUED), name="My sweep")
        page.goto(f"{address}/experiments/{sweep}")
        page.get_by_role("button", name="Notify me when it ends").click()
        expect(page.get_by_role("button", name="Notification on. Keep this page open.")).to_be_visible()
        assert page.evaluate("window.shown") == []
        with context.sessions.begin() as session:
            session.get(Experiment, sweep).runs[1].status = RunStatus.FINISHED
        expect(page.locator("[data-notify]")).to_have_count(0)
        assert page.evaluate("window.shown") == [["My sweep has ended", "2 runs finished"]]
        page.reload()
        expect(page.get_by_role("heading", name="My sweep")).to_be_visible()
        assert page.evaluate("window.shown") == []
