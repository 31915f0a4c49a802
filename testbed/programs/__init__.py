"""The programs that the test cluster is made of, built from pinned Go modules and kept by content hash."""

from testbed.programs.builder import build, is_built, module_folder, program_path
from testbed.programs.catalogue import PROGRAMS, Program
from testbed.programs.go import go_command

__all__ = ["PROGRAMS", "Program", "build", "go_command", "is_built", "module_folder", "program_path"]
