from agent57.storage import machine
from agent57.storage.machine import processor


def test_the_processor_has_the_name_of_its_first_core(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "CPU_INFO", tmp_path / "cpuinfo")
    monkeypatch.setattr("platform.processor", lambda: "x86_64")
    assert processor() == "x86_64"
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Made: up\nmodel name\t: B\n")
    assert processor() == "Made: up"
