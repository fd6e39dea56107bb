"""Training on several ranks (mpiexec), which leaves the same bytes for any number of them. What ranks are, and how they
talk, is in `minitransformer/app/ranks.py`.

slices.py      the steps: a batch cut into slices, whose gradients are added in one order
tree.py        that order
shares.py      which rank looks after which numbers, and keeps their optimizer state
sending.py     gradients on their way while backward goes on
agreement.py   whether all ranks are about to do the same
"""
