import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Error, Locator, Page, expect

from tests.dashboards import empty_dashboard

DROP = """([name, text, target]) => {
  const moved = new DataTransfer();
  moved.items.add(new File([text], name));
  for (const kind of ["dragover", "drop"]) {
    const event = new DragEvent(kind, { dataTransfer: moved, bubbles: true, cancelable: true });
    document.querySelector(target).dispatchEvent(event);
    if (kind === "dragover" && !document.documentElement.classList.contains("dropping")) throw new Error("not lit");
  }
}"""
ROWS = "a,b,c,d\n" + "\n".join(",".join(str((7 * i + 3 * j) % 11 / 3) for j in range(4)) for i in range(60))


def save_array(tmp_path, name: str, array: np.ndarray) -> Path:
    np.save(tmp_path / name, array)
    return tmp_path / name


def choose_files(page: Page, url: str, files: Path | list[Path]) -> Locator:
    page.goto(f"{url}/embeddings")
    page.get_by_label("A file of vectors").set_input_files(files)
    return page.get_by_role("button", name="Upload and preview")


@pytest.fixture(scope="module")
def small_limits(tmp_path_factory, empty_databases) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ISOSCOPE_MAX_UPLOAD_BYTES", str(2**20))
        patch.setenv("ISOSCOPE_MAX_DATASET_BYTES", "1000")
        with empty_dashboard(tmp_path_factory.mktemp("small_limits"), empty_databases) as (address, _):
            yield address


def limit_upload_speed(page, bytes_per_second: int) -> None:
    session = page.context.new_cdp_session(page)
    limits = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": bytes_per_second}
    session.send("Network.emulateNetworkConditions", limits)


def test_upload_shows_progress_and_can_be_cancelled(dashboard, page, tmp_path):
    listed, files = {row["id"] for row in dashboard.get("/api/embeddings")}, dashboard.data_dir / "files"
    stored = set(files.iterdir())
    button = choose_files(page, dashboard.url, save_array(tmp_path, "x.npy", np.ones((50_000, 100))))
    limit_upload_speed(page, 2_000_000)
    button.click()
    expect(page.get_by_text(re.compile(r"^[\d.]+ [kM]B of 40 MB sent$"))).to_be_visible()
    expect(page.get_by_role("progressbar", name="Upload")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("alert")).to_have_text("Cancelled: nothing was kept.")
    expect(button).to_be_focused()
    assert {row["id"] for row in dashboard.get("/api/embeddings")} == listed

    def has_arrays():
        return any(file.read_bytes().startswith(b"\x93NUMPY") for file in set(files.iterdir()) - stored)

    dashboard.wait_for(lambda: not has_arrays(), "the removal of the upload")


@pytest.mark.long
def test_files_over_limit_are_refused_before_sending(small_limits, page, tmp_path):
    button = choose_files(page, small_limits, [save_array(tmp_path, f"{i}.npy", np.ones((800, 100))) for i in range(2)])
    expect(page.get_by_text("up to 1 MiB")).to_be_visible()
    files = page.get_by_label("A file of vectors")
    expect(page.get_by_role("alert")).to_have_text(
        "The 2 files have 1.28 MB together, the limit is 1 MiB. Choose less."
    )
    expect(files).to_have_attribute("aria-invalid", "true")
    requests = []
    page.on("request", lambda request: requests.append(request.method))
    button.click()
    assert requests == []
    files.set_input_files(save_array(tmp_path, "fine.npy", np.ones((800, 100))))
    expect(page.get_by_role("alert")).to_have_count(0)
    button.click()
    expect(page).to_have_url(re.compile("/embeddings/[0-9a-f]{32}$"))


@pytest.mark.long
def test_each_dataset_file_has_its_own_limit_and_error(small_limits, page, tmp_path):
    large, fine = tmp_path / "large.tsv", tmp_path / "fine.tsv"
    large.write_text("sentence\tlabel\n" * 100)
    fine.write_text("sentence\tlabel\na\t1\n")
    page.goto(f"{small_limits}/datasets")
    train, validation = page.get_by_label("Train file"), page.get_by_label("Validation file")
    train.set_input_files(large)
    validation.set_input_files(fine)
    expect(page.get_by_role("alert")).to_have_text("large.tsv has 1.5 kB, the limit is 1.00 kB. Choose less.")
    expect(train).to_have_attribute("aria-invalid", "true")
    assert train.evaluate("input => input.validity.customError")
    train.set_input_files(fine)
    expect(page.get_by_role("alert")).to_have_count(0)
    assert train.evaluate("input => input.form.checkValidity()")


def test_sent_upload_can_no_longer_be_cancelled(dashboard, page, tmp_path):
    button = choose_files(page, dashboard.url, save_array(tmp_path, "x.npy", np.ones((8, 3))))
    session = page.context.new_cdp_session(page)
    session.send("Fetch.enable", {"patterns": [{"urlPattern": "*/embeddings", "requestStage": "Response"}]})
    button.click()
    expect(page.get_by_text(re.compile("sent. The server is storing them"))).to_be_visible()
    expect(page.locator("form#upload")).to_have_attribute("aria-busy", "true")
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    session.send("Fetch.disable")
    expect(page.get_by_text("8 × 3", exact=True)).to_be_visible()


def test_server_error_is_shown_at_its_field(dashboard, page, tmp_path):
    (tmp_path / "labels.pkl").write_bytes(b"\x80\x04\x95abc")
    button = choose_files(page, dashboard.url, save_array(tmp_path, "x.npy", np.ones((8, 3))))
    page.get_by_label("Names and labels").set_input_files(tmp_path / "labels.pkl")
    button.click()
    field = page.get_by_label("Names and labels")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_be_focused()
    expect(page.locator("#annotations-error")).to_contain_text("labels.pkl: This is a Python pickle")
    assert page.get_by_label("A file of vectors").evaluate("input => input.files[0].name") == "x.npy"


def test_lost_connection_keeps_the_form(dashboard, page, tmp_path):
    button = choose_files(page, dashboard.url, save_array(tmp_path, "x.npy", np.ones((8, 3))))
    page.get_by_label("Name", exact=True).fill("Kept")
    page.route("**/embeddings", lambda route: route.abort("connectionreset"))
    button.click()
    expect(page.get_by_role("alert")).to_contain_text("The connection was lost")
    expect(page.get_by_label("Name", exact=True)).to_have_value("Kept")
    expect(page.locator("form#upload")).to_have_attribute("aria-busy", "false")


def test_ended_session_keeps_the_form(dashboard, page, tmp_path):
    page.route("**/queue/status", lambda route: route.fulfill(status=401))
    choose_files(page, dashboard.url, save_array(tmp_path, "x.npy", np.ones((8, 3))))
    page.get_by_label("Name", exact=True).fill("Kept")
    expect(page.get_by_text("Your session has ended.")).to_be_visible()
    page.unroute("**/queue/status")
    expect(page.get_by_text("Your session has ended.")).to_be_hidden()
    expect(page.get_by_label("Name", exact=True)).to_have_value("Kept")


def test_dropped_file_is_uploaded_and_measured(dashboard, page):
    for path, drop_target, kind in (
        ("/", "main", "embeddings"), ("/encodings", "main", "encodings"), ("/embeddings", "footer", "embeddings")
    ):  # fmt: skip
        page.goto(dashboard.url + path)
        expect(page.locator("[data-drop-hint]")).to_be_visible()
        page.evaluate(DROP, ["dropped.csv", ROWS, drop_target])
        expect(page).to_have_url(re.compile(rf"/{kind}/[0-9a-f]{{32}}$"))
    page.get_by_role("button", name="Measure these embeddings").click()
    expect(page.get_by_role("heading", name="dropped")).to_be_visible()
    expect(page.locator(".tag.draft")).to_have_count(0)


@pytest.mark.long
def test_shards_and_labels_are_uploaded_in_order(dashboard, page, tmp_path):
    (tmp_path / "labels.csv").write_text("word,label\n" + "".join(f"w{i},{i % 3}\n" for i in range(400)))
    cloud = np.random.default_rng(0).normal(size=(400, 8))
    shards = [save_array(tmp_path, "part-10.npy", cloud[300:]), save_array(tmp_path, "part-2.npy", cloud[:300])]
    button = choose_files(page, dashboard.url, shards)
    page.get_by_label("Names and labels").set_input_files(tmp_path / "labels.csv")
    button.click()
    expect(page.get_by_text("400 × 8", exact=True)).to_be_visible()
    expect(page.locator("ol.uploaded li")).to_have_text([re.compile("^part-2.npy"), re.compile("^part-10.npy")])


def test_drop_on_file_field_is_left_to_the_field(dashboard, page):
    page.goto(f"{dashboard.url}/embeddings")
    with pytest.raises(Error, match="not lit"):
        page.evaluate(DROP, ["labels.csv", "x", "input[name=annotations]"])
