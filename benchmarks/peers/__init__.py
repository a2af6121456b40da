"""Methods that ours are compared with and that no package has, implemented from the papers."""
