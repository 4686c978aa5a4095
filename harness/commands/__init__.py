"""What the commands of `sidestream` do, behind their options."""
