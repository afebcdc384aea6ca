"""What is coupled and where it may run: machine and tables of a study, the same in files, options and Python."""
