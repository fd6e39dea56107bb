"""First on the path of jobs whose learning curves nobody looks at: drawing them takes as long as the training."""

raise ImportError("these tests need no picture")
