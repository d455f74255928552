"""Rule stores on an object store: what only a bucket does, see `engine/storage/bucket`."""

import os
import pickle
import subprocess
import sys
import time
import uuid

import pytest
from click.testing import CliRunner

import tocsin
from tocsin.cli.main import tocsin as main
from tocsin.engine.storage import bucket as bucket_module
from tocsin.engine.storage import is_bucket
from tocsin.engine.storage.bucket import Bucket
from tocsin.engine.storage.memory import Memory
from tocsin.engine.store_folder import StoreFolder

SCHEMA = {"x": "number", "c": "category"}


@pytest.fixture
def url(bucket, tmp_path, monkeypatch):
    """The URL of an empty folder, with an empty folder for local copies."""
    monkeypatch.setenv("TOCSIN_CACHE_DIR", str(tmp_path / "cache"))
    local_copies = bucket_module._local_copies
    local_copies.cache_clear()
    yield f"{bucket}/{uuid.uuid4().hex}"
    local_copies.cache_clear()


def copies(tmp_path):
    return sorted(file for file in (tmp_path / "cache/segments").glob("*/*") if file.is_file())


def count_requests(monkeypatch):
    """Return a list that gets the name of each request to an object store."""
    import obstore

    requests = []
    for name in ("get", "put", "head", "list", "delete"):
        method = getattr(obstore, name)

        def call(store, *arguments, name=name, method=method, **options):
            requests.append(f"{name} {arguments[0] if arguments else options.get('prefix')}")
            return method(store, *arguments, **options)

        monkeypatch.setattr(obstore, name, call)
    return requests


def test_a_store_is_named_by_its_url(url):
    store = tocsin.RuleStore.create(url, SCHEMA)
    assert store.add("a", "x > 1") == 2
    assert store.path == url
    assert repr(store) == f"RuleStore({url!r}, version 2)"
    for other in (f"{url}/", url.replace("s3:", "s3a:"), url.replace("tests/", "tests//")):
        assert list(tocsin.open(other)) == ["a"]
    rules = tocsin.open(url)
    rules.add("b", "x > 2")
    assert rules.save(url.replace("s3:", "s3a:")) == 3
    with pytest.raises(tocsin.StoreError, match=f"a rule store already exists at {url}"):
        tocsin.RuleStore.create(url, SCHEMA)
    with pytest.raises(tocsin.StoreError, match="there is no rule store at s3://"):
        tocsin.open(f"{url}/nothing")


def test_processes_share_local_copies(url, tmp_path, monkeypatch):
    store = tocsin.RuleStore.create(url, SCHEMA)
    with store.change() as rules:
        rules.add_many([{"id": i, "where": f"x > {i}"} for i in range(1000)])
    requests = count_requests(monkeypatch)
    assert len(tocsin.open(url).match([{"x": 10.5}])) == 11
    assert sum("arrays.bin" in each for each in requests) == 1
    assert copies(tmp_path)
    del requests[:]
    assert len(tocsin.open(url).match([{"x": 10.5}])) == 11
    assert not any("arrays.bin" in each or "rules.arrow" in each for each in requests)


def test_a_copy_that_is_damaged_is_not_used(url, tmp_path):
    tocsin.RuleStore.create(url, SCHEMA).add("a", "x > 1")
    tocsin.open(url)
    for file in copies(tmp_path):
        file.write_bytes(bytes(file.stat().st_size))
    with pytest.raises(tocsin.StoreError, match="checksum differs"):
        tocsin.open(url)
    for file in copies(tmp_path):
        file.write_bytes(b"cut off")
    with pytest.raises(tocsin.StoreError, match="bytes instead of"):
        tocsin.open(url)
    for file in copies(tmp_path):
        file.unlink()
    assert list(tocsin.open(url)) == ["a"]


def test_copies_that_nobody_used_for_a_day_are_deleted(url, tmp_path):
    store = tocsin.RuleStore.create(url, SCHEMA)
    store.add("a", "x > 1")
    tocsin.open(url)
    old = copies(tmp_path)
    for file in old:
        os.utime(file, (time.time() - 90_000, time.time() - 90_000))
    tocsin.open(url)
    assert copies(tmp_path) == old
    assert all(file.stat().st_mtime > time.time() - 1000 for file in old)
    os.utime(old[0], (time.time() - 90_000, time.time() - 90_000))
    bucket_module._delete_unused(tmp_path / "cache/segments")
    assert copies(tmp_path) == old[1:]


def test_without_a_place_for_copies_segments_are_read(url, monkeypatch):
    monkeypatch.setattr(bucket_module, "_local_copies", lambda: None)
    tocsin.RuleStore.create(url, SCHEMA).add("a", "x > 1")
    assert list(tocsin.open(url).match([{"x": 2}])) == [(0, "a")]


def test_a_folder_that_others_can_write_has_no_copies(url, tmp_path):
    (tmp_path / "cache/segments").mkdir(parents=True)
    (tmp_path / "cache/segments").chmod(0o777)
    assert bucket_module._local_copies() != tmp_path / "cache/segments"


def test_requests_of_a_micro_batch(url, monkeypatch):
    tocsin.RuleStore.create(url, SCHEMA)
    folder, other = StoreFolder(url), StoreFolder(url)
    for batch in ("0", "1"):
        assert folder.pin("q", batch) == 1
    requests = count_requests(monkeypatch)
    assert folder.pin("q", "2") == 1
    kinds = [each.split()[0] for each in requests]
    assert sorted(kinds) == ["get", "list", "list", "put"]
    del requests[:]
    assert other.pin("q", "2") == 1
    assert [each.split()[0] for each in requests] == ["get"]


def test_on_the_command_line(url):
    def run(*arguments):
        result = CliRunner().invoke(main, ["rules", *arguments])
        assert result.exit_code == 0, result.output
        return result.output

    run("create", url, "--schema", "x=number")
    assert run("add", url, "a", "x > 1") == "version 2: 1 rule\n"
    assert "x > 1" in run("list", url)
    assert "prune" in run("--help")
    assert run("prune", url, "--keep", "1") != ""
    assert [entry.number for entry in tocsin.RuleStore(url).versions()] == [2]


def test_commands_take_its_url(url, tmp_path):
    def run(*arguments):
        result = CliRunner().invoke(main, [*map(str, arguments)])
        assert result.exit_code == 0, result.output
        return result.output

    tocsin.RuleStore.create(url, {"x": "number", "object": "category", "t": "number"})
    tocsin.RuleStore(url).add("a", "x > 1")
    events, out = tmp_path / "events.csv", tmp_path / "out.csv"
    events.write_text("object,t,x\nvan,1,5.0\nvan,2,0.0\n")
    assert "1 match" in run("match", "--rules", url, "--events", events, "--out", out)
    assert "a" in out.read_text()
    assert "enter" in run("monitor", "--rules", url, "--positions", events)
    assert "matches" in run("explain", "--rules", url, "a", "--event", '{"x": 3}')
    assert "1 rule" in run("plan", "--rules", url)
    assert "1 rule: 0 errors" in run("rules", "check", url)
    assert "no findings" in run("lint", url)


def test_a_monitor_is_saved_there(url):
    rules = tocsin.Rules({"x": "number"})
    rules.add("dock", "x < 10")
    monitor = tocsin.Monitor(rules, position=["x"])
    monitor.update([{"object": "van", "t": 1, "x": 5.0}])
    monitor.save(url)
    monitor.save(url)
    assert tocsin.Monitor.open(url, rules).where("van") == ["dock"]


# ------------------------------------------------------------ secrets


def test_nothing_that_is_pickled_or_stored_has_a_key(url):
    store = tocsin.RuleStore.create(url, SCHEMA)
    store.add("a", "x > 1")
    secrets = [
        os.environ["AWS_SECRET_ACCESS_KEY"].encode(),
        os.environ["AWS_ACCESS_KEY_ID"].encode(),
    ]
    storage = Bucket(url)
    again = pickle.loads(pickle.dumps(store))
    assert list(again.rules()) == ["a"]
    assert pickle.loads(pickle.dumps(storage)).read("versions/00000001.json")
    everything = [pickle.dumps(store), pickle.dumps(storage), repr(store).encode()]
    everything += [storage.read(entry.name) for entry in storage.list("")]
    for secret in secrets:
        assert not any(secret in each for each in everything)


@pytest.mark.parametrize(
    "place", ["s3://key:secret@b/x", "s3://b/x?token=secret", "s3://b/x#secret"]
)
def test_a_url_with_a_password_is_refused_and_not_repeated(place):
    with pytest.raises(tocsin.StoreError, match="credentials come from the environment") as caught:
        tocsin.open(place)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("place", ["s3://", "s3:///x", "s3://b/../x", "gs://./."])
def test_urls_without_a_bucket(place):
    with pytest.raises(tocsin.StoreError, match="is not the URL of a bucket"):
        tocsin.open(place)


def test_what_is_a_bucket():
    assert all(map(is_bucket, ["s3://b", "s3a://b/c", "gs://b", "az://b/c"]))
    assert not any(map(is_bucket, ["s3:/b", "b", "/s3://b", "hdfs://b", "S3", "s3", ""]))


# ------------------------------------------------------------ trouble


def test_a_bucket_that_does_not_exist():
    for call in (tocsin.open, tocsin.RuleStore, lambda u: tocsin.RuleStore.create(u, SCHEMA)):
        with pytest.raises(tocsin.StoreError, match="specified bucket does not exist") as caught:
            call("s3://nowhere/rules")
        assert len(str(caught.value)) < 300


def test_a_server_that_does_not_answer(bucket):
    code = (
        "import obstore, tocsin\n"
        "from tocsin.engine.storage import bucket\n"
        "try: tocsin.open('s3://b/x')\n"
        "except tocsin.StoreError as error: print(error)\n"
    )
    environment = os.environ | {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True
    )
    assert "the rule store at s3://b/x cannot be read: " in run.stdout
    assert "Debug" not in run.stdout


def test_object_stores_that_ignore_conditions_are_refused():
    class Careless(Memory):
        def put_if_absent(self, name, data):
            self.put({name: [data]})
            return True

    storage = Careless()
    with pytest.raises(tocsin.StoreError, match="replaces objects that must be absent"):
        tocsin.RuleStore.create(storage, SCHEMA)
    assert storage.list("") == []


def test_a_forked_process_is_told_to_open_the_store_itself(url):
    store = tocsin.RuleStore.create(url, SCHEMA)
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            message = str(store.version)
        except tocsin.StoreError as error:
            message = str(error)
        os.write(writer, message.encode())
        os._exit(0)
    os.waitpid(process, 0)
    assert b"was opened before this process was forked" in os.read(reader, 1000)
    os.close(reader)
    os.close(writer)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(tocsin.StoreError, match=r"pip install 'tocsin\[cloud\]'"):
        tocsin.open("s3://somewhere-else/rules")
