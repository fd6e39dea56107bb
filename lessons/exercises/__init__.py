"""Exercises with a judge. One file holds one exercise: the text, the body to fill in, hints, two right answers, the
wrong answers that the judge must reject, and the inputs it tries.

    exercise.py   what an exercise is, and how its file is read        catalogue.py   all of them, by track
    worker.py     runs a student's code apart from everything          sandbox.py     starts workers, and ends them
    plain_numba.py, cuda_run.py   the two kinds that are more than a Python function
    judge.py      from answers to a verdict; with compare.py and mistakes.py, which know what went wrong,
                  and verdict.py, which says it
    unseen_text.py   whether a trained model beats a bigram, and if not, why
    power.py      judges every right and every wrong answer: how good is the judge?
    command.py    minitransformer exercise; with progress.py and grading.py
"""
