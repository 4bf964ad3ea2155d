"""Parquet files that hold every batch once, on any file system that Spark can write to.

A batch is written aside, the places of its files are noted (`<batch>.open.json`), the files are moved there, and a second note
(`<batch>.done.json`) says that it is done.  A batch that is done is not written again; one that is only open is taken back and
written anew.  Notes lie under `_headrace/<query>/`, which readers of the folder pass over.  Small files of one folder are merged
in the same manner; `committed_files` is what holds at any moment, also in the middle of a move or after a crash.
"""

import json
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

NOTES = "_headrace"
NOTES_KEPT = 100
FILE_BYTES_MAX = 128 * 1024 * 1024


class FileSink:
    """One folder of Parquet files."""

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        *,
        partition_by: Sequence[str] = (),
        merge_after: int = 0,
        order_by: Sequence[str] = (),
    ) -> None:
        self._spark = spark
        self._folder = Folder(spark, path)
        self._path = path
        self._partition_by = tuple(partition_by)
        self._merge_after = merge_after
        self._order_by = tuple(order_by)

    def write(self, frame: DataFrame, query: str, batch: int) -> bool:
        """Add a batch's rows; False when they had been added before."""
        opened, done = f"{NOTES}/{query}/{batch}.open.json", f"{NOTES}/{query}/{batch}.done.json"
        if self._folder.exists(done):
            return False
        for left_over in (self._folder.read_json(opened) or {"files": []})["files"]:
            self._folder.delete(left_over)
        self._folder.delete(opened)
        staging = f"{NOTES}/staging/{query}-{batch}"
        self._folder.delete(staging)
        writer = self._ordered(frame).write.mode("overwrite")
        (writer.partitionBy(*self._partition_by) if self._partition_by else writer).parquet(f"{self._path}/{staging}")
        moves = self._moves(staging, f"batch-{query[:8]}-{batch:09d}")
        self._folder.write_json(opened, {"files": [target for _, target in moves]})
        for source, target in moves:
            self._folder.move(source, target)
        self._folder.write_json(done, {"files": [target for _, target in moves]})
        for finished in (staging, opened, f"{NOTES}/{query}/{batch - NOTES_KEPT}.done.json"):
            self._folder.delete(finished)
        if self._merge_after:
            self.merge({target.rpartition("/")[0] for _, target in moves})
        return True

    def merge(self, folders: set[str]) -> int:
        """Turn the small files of each folder into one, where there are at least `merge_after` of them."""
        self.finish_merges()
        merged = 0
        for folder in sorted(folders):
            small = [name for name, size in self._folder.files(folder) if size < FILE_BYTES_MAX]
            if len(small) >= max(2, self._merge_after):
                self._merge(folder, small)
                merged += 1
        return merged

    def finish_merges(self) -> None:
        """What a crash interrupted: the merged file is whole once its note exists, so the merge can only go forward."""
        for name, _ in self._folder.files(f"{NOTES}/merges", suffix=".json"):
            note = self._folder.read_json(name)
            if note is not None:
                self._finish(name, note)

    def _merge(self, folder: str, files: Sequence[str]) -> None:
        name = uuid.uuid4().hex
        staging = f"{NOTES}/staging/merge-{name}"
        rows = self._spark.read.parquet(*[f"{self._path}/{one}" for one in files])
        order = [column for column in self._order_by if column in rows.columns]
        together = rows.coalesce(1)
        (together.sortWithinPartitions(*order) if order else together).write.parquet(f"{self._path}/{staging}")
        ((source, _),) = self._folder.files(staging)
        note = {
            "staged": source,
            "staging": staging,
            "target": f"{folder}/merged-{name}.parquet".lstrip("/"),
            "files": list(files),
        }
        note_name = f"{NOTES}/merges/{name}.json"
        self._folder.write_json(note_name, note)
        self._finish(note_name, note)

    def _finish(self, note_name: str, note: dict[str, Any]) -> None:
        if self._folder.exists(note["staged"]):
            self._folder.move(note["staged"], note["target"])
        for one in note["files"]:
            self._folder.delete(one)
        self._folder.delete(note_name)
        self._folder.delete(note["staging"])

    def _ordered(self, frame: DataFrame) -> DataFrame:
        order = [column for column in self._order_by if column in frame.columns]
        return frame.sortWithinPartitions(*order) if order and not self._partition_by else frame

    def _moves(self, staging: str, prefix: str) -> list[tuple[str, str]]:
        found = []
        for number, (name, _) in enumerate(sorted(self._folder.files(staging, recursive=True))):
            below = name.removeprefix(f"{staging}/").rpartition("/")[0]
            found.append((name, f"{below}/{prefix}-{number:04d}.parquet".lstrip("/")))
        return found


def committed_files(spark: SparkSession, path: str) -> list[str]:
    """The files that hold each row once, whatever is being written, merged or left over from a crash."""
    folder = Folder(spark, path)
    files = {name for name, _ in folder.files("", recursive=True) if not name.startswith(("_", "."))}
    notes = {name for name, _ in folder.files(NOTES, recursive=True, suffix=".json")}
    for name in notes:
        note = folder.read_json(name) or {"files": []}
        if "target" in note:
            files -= set(note["files"]) if note["target"] in files else set()
        elif name.endswith(".open.json") and name.replace(".open.", ".done.") not in notes:
            files -= set(note["files"])
    return sorted(f"{path}/{name}" for name in files)


class Folder:
    """A folder on any of Hadoop's file systems, by names relative to it."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._path_class = jvm.org.apache.hadoop.fs.Path
        self._root = self._path_class(path)
        self._system = self._root.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
        self._root = self._system.makeQualified(self._root)
        self._jvm = jvm

    def exists(self, name: str) -> bool:
        return bool(self._system.exists(self._at(name)))

    def files(self, name: str, *, recursive: bool = False, suffix: str = ".parquet") -> Iterator[tuple[str, int]]:
        """Names and sizes of the files below a folder."""
        start = self._at(name)
        if not self._system.exists(start):
            return
        listing = self._system.listFiles(start, recursive)
        root = self._root.toString().rstrip("/") + "/"
        while listing.hasNext():
            status = listing.next()
            found = status.getPath().toString().removeprefix(root)
            if found.endswith(suffix):
                yield found, int(status.getLen())

    def move(self, source: str, target: str) -> None:
        self._system.mkdirs(self._at(target).getParent())
        if not self._system.rename(self._at(source), self._at(target)):
            raise OSError(f"{source} could not be moved to {target} below {self._root.toString()}")

    def delete(self, name: str) -> None:
        self._system.delete(self._at(name), True)

    def read_json(self, name: str) -> dict[str, Any] | None:
        if not self.exists(name):
            return None
        stream = self._system.open(self._at(name))
        try:
            text = bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()
        found: dict[str, Any] = json.loads(text)
        return found

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Whole or not at all: written aside, then renamed to a name that is free."""
        aside = f"{name}.writing"
        stream = self._system.create(self._at(aside), True)
        try:
            stream.write(bytearray(json.dumps(content).encode()))
        finally:
            stream.close()
        self.move(aside, name)

    def _at(self, name: str) -> Any:
        return self._path_class(self._root, name) if name else self._root
