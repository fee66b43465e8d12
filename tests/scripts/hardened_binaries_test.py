"""The programs are built hardened: position independent, relocations read-only and bound at start, no executable stack, no
library path, stack protector, checked copies, and marked targets of indirect branches."""

import dataclasses
import pathlib
import re
import struct
import subprocess

import pytest

from conftest import PATIENCE_S

PROGRAMS = ("shoal", "shoal-worker", "shoal-media", "shoal-load",
            *(["shoal-av"] if (pathlib.Path(__file__).resolve().parents[2] / "build/shoal-av").exists() else []))

ET_DYN, EM_X86_64 = 3, 62
PT_LOAD, PT_DYNAMIC, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 0x6474E551, 0x6474E552
PF_X, PF_W = 1, 2
DT_RPATH, DT_RUNPATH, DT_FLAGS, DT_FLAGS_1 = 15, 29, 30, 0x6FFFFFFB
DF_BIND_NOW, DF_1_NOW, DF_1_PIE = 8, 1, 0x08000000
SHT_SYMTAB, SHT_DYNSYM, SHT_NOTE = 2, 11, 7
NT_GNU_PROPERTY, X86_FEATURES, IBT_AND_SHSTK = 5, 0xC0000002, 3
ENDBR64 = bytes.fromhex("f30f1efa")


@dataclasses.dataclass
class Section:
    kind: int
    address: int
    offset: int
    size: int
    link: int


class Elf:
    """A 64-bit little-endian ELF file, as far as the checks need it."""

    def __init__(self, path):
        self.data = path.read_bytes()
        assert self.data[:6] == b"\x7fELF\x02\x01"
        self.type, self.machine = struct.unpack_from("<HH", self.data, 16)
        programs, sections = struct.unpack_from("<QQ", self.data, 32)
        program_size, program_count, section_size, section_count = struct.unpack_from("<HHHH", self.data, 54)
        self.segments = []
        for i in range(program_count):
            kind, flags, offset, address, _, size = struct.unpack_from("<IIQQQQ", self.data, programs + i * program_size)
            self.segments.append((kind, flags, offset, address, size))
        self.sections = []
        for i in range(section_count):
            _, kind, _, address, offset, size, link = struct.unpack_from("<IIQQQQI", self.data, sections + i * section_size)
            self.sections.append(Section(kind, address, offset, size, link))

    def flags_of(self, wanted):
        return [flags for kind, flags, *_ in self.segments if kind == wanted]

    def dynamic(self):
        entries = {}
        for kind, _, offset, _, size in self.segments:
            if kind == PT_DYNAMIC:
                entries.update(struct.iter_unpack("<qQ", self.data[offset:offset + size]))
        return entries

    def symbols(self, kind):
        """{name: address} of the symbol table of this kind."""
        found = {}
        for section in self.sections:
            if section.kind != kind:
                continue
            names = self.sections[section.link].offset
            for name, _, _, _, address, _ in struct.iter_unpack("<IBBHQQ", self.data[section.offset:section.offset + section.size]):
                end = self.data.index(b"\0", names + name)
                found[self.data[names + name:end].decode()] = address
        return found

    def begins_with(self, address, code):
        for kind, _, offset, start, size in self.segments:
            if kind == PT_LOAD and start <= address < start + size:
                return self.data[offset + address - start:].startswith(code)
        return False

    def x86_features(self):
        """The bits of indirect branch tracking (1) and shadow stack (2) in the notes."""
        for section in self.sections:
            at, end = section.offset, section.offset + section.size
            while section.kind == SHT_NOTE and at + 16 <= end:
                name_size, size, kind = struct.unpack_from("<III", self.data, at)
                body = at + 12 + (name_size + 3) // 4 * 4
                if kind == NT_GNU_PROPERTY and self.data[at + 12:at + 16] == b"GNU\0":
                    inner = body
                    while inner + 8 <= body + size:
                        property_kind, property_size = struct.unpack_from("<II", self.data, inner)
                        if property_kind == X86_FEATURES:
                            return struct.unpack_from("<I", self.data, inner + 8)[0]
                        inner += 8 + (property_size + 7) // 8 * 8
                at = body + (size + 3) // 4 * 4
        return 0


def start_file():
    """The C library's start file: the linker marks a program only if this file is marked too (Debian's is not)."""
    name = subprocess.run(["gcc", "-print-file-name=Scrt1.o"], capture_output=True, text=True, check=True).stdout.strip()
    return Elf(pathlib.Path(name))


def weaknesses(path):
    elf = Elf(path)
    dynamic, imports = elf.dynamic(), elf.symbols(SHT_DYNSYM)
    found = []
    if elf.type != ET_DYN or not dynamic.get(DT_FLAGS_1, 0) & DF_1_PIE:
        found.append("not position independent")
    if not elf.flags_of(PT_GNU_RELRO):
        found.append("relocations stay writable")
    if not dynamic.get(DT_FLAGS, 0) & DF_BIND_NOW and not dynamic.get(DT_FLAGS_1, 0) & DF_1_NOW:
        found.append("binds lazily")
    if not elf.flags_of(PT_GNU_STACK) or any(flags & PF_X for flags in elf.flags_of(PT_GNU_STACK)):
        found.append("executable stack")
    if any(flags & PF_X and flags & PF_W for flags in elf.flags_of(PT_LOAD)):
        found.append("a segment is writable and executable")
    if DT_RPATH in dynamic or DT_RUNPATH in dynamic:
        found.append("library path")
    if "__stack_chk_fail" not in imports:
        found.append("no stack protector")
    if not any(re.fullmatch(r"__(?!stack)\w+_chk", name) for name in imports):
        found.append("no checked copies")
    if elf.machine == EM_X86_64:
        if not elf.begins_with(elf.symbols(SHT_SYMTAB)["main"], ENDBR64):
            found.append("no branch targets")
        if start_file().x86_features() == IBT_AND_SHSTK and elf.x86_features() & IBT_AND_SHSTK != IBT_AND_SHSTK:
            found.append("no note of branch targets and shadow stack")
    return found


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_has_no_weakness(repository, program):
    assert weaknesses(repository / "build" / program) == []


SOURCE = """#include <stdio.h>
#include <string.h>
__asm__(".section .both,\\"awx\\"; .long 0; .text");
int main(int count, char **words) { char copy[16]; strcpy(copy, words[0] + count); return puts(copy); }
"""


def test_every_weakness_of_a_plain_build_is_found(tmp_path):
    (tmp_path / "plain.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O2", "-U_FORTIFY_SOURCE", "-fno-stack-protector", "-fcf-protection=none", "-fno-pie", "-no-pie",
                    "-Wl,-z,norelro,-z,lazy,-z,execstack,-rpath,/tmp", "-Wno-stringop-overflow", "-o", tmp_path / "plain",
                    tmp_path / "plain.c"], check=True, timeout=PATIENCE_S)
    expected = ["not position independent", "relocations stay writable", "binds lazily", "executable stack",
                "a segment is writable and executable", "library path", "no stack protector", "no checked copies"]
    if Elf(tmp_path / "plain").machine == EM_X86_64:
        expected.append("no branch targets")
        if start_file().x86_features() == IBT_AND_SHSTK:
            expected.append("no note of branch targets and shadow stack")
    assert weaknesses(tmp_path / "plain") == expected
