"""The release card and the pages: a public one, and an internal one that is not DP."""
