"""Float64 reference, error bounds and metamorphic relations; needs numpy alone."""
