"""Small packages that scripts of `host_scripts` call, judged as packages are."""
