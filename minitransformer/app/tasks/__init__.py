"""From data to a trained model and back to text: language modelling, classification and translation.

codec      text to ids and back, kept inside the checkpoint
builtin      fresh text of the built-in language, without end, in parts that never meet
recipes      sizes and settings that work: our defaults and the labs'
modelling    a language model        classifying   a classifier        translating   a translator
runs         the training run that all three share
trained      finding and opening a checkpoint
measures     loss per word, accuracy with its interval, BLEU
filling      what a masked model puts into gaps
"""
