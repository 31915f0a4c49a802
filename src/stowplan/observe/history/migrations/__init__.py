"""The steps by which the database of an older Stowplan becomes that of this one."""
