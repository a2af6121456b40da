"""The methods that ours are compared with and that no package has, written from the papers."""
