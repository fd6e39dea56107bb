"""From data to a trained model and back to text: language modelling, classification and translation.

options      what a user can ask of a training
recipes      sizes and settings that work: our defaults and the labs'
text_codec   text to ids and back, kept inside the checkpoint
sources      from a user's file to ids
builtin      fresh text of the built-in language, without end, in parts that never meet
objectives   what a language model can learn to predict
modelling    a language model        classifying   a classifier        translating   a translator
task         what all three make of their options, and the training run that carries it out
trained      finding and opening a checkpoint
borrowed     models of others, to use or to start from
evaluating   a trained model on unseen data
measures     loss per word, accuracy with its interval, BLEU
filling      what a masked model puts into gaps
"""
