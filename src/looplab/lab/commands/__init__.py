"""The commands of ./lab, a module each."""
