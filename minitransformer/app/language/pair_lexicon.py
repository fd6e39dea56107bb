"""The bilingual word list; `pair_forms` says what stands in each column."""

from minitransformer.app.language.pair_forms import adjectives, nouns, phrases, verbs, words

FAMILY = nouns("""
boy boys garçon garçons m
girl girls fille filles f
brother brothers frère frères m
sister sisters sœur sœurs f
uncle uncles oncle oncles m
aunt aunts tante tantes f
man men homme hommes m
woman women femme femmes f
son sons fils fils m
""")

PEOPLE = nouns("""
king kings roi rois m
queen queens reine reines f
actor actors acteur acteurs m
actress actresses actrice actrices f
baker bakers boulanger boulangers m
nurse nurses infirmière infirmières f
painter painters peintre peintres m
witch witches sorcière sorcières f
giant giants géant géants m
""")

ANIMALS = nouns("""
cat cats chat chats m
dog dogs chien chiens m
bird birds oiseau oiseaux m
horse horses cheval chevaux m
cow cows vache vaches f
owl owls hibou hiboux m
rabbit rabbits lapin lapins m
mouse mice souris souris f
bee bees abeille abeilles f
ant ants fourmi fourmis f
elephant elephants éléphant éléphants m
duck ducks canard canards m
fox foxes renard renards m
squirrel squirrels écureuil écureuils m
goat goats chèvre chèvres f
turtle turtles tortue tortues f
""")

THINGS = nouns("""
car cars voiture voitures f
book books livre livres m
tree trees arbre arbres m
table tables table tables f
chair chairs chaise chaises f
letter letters lettre lettres f
bicycle bicycles vélo vélos m
boat boats bateau bateaux m
key keys clé clés f
hat hats chapeau chapeaux m
dress dresses robe robes f
coat coats manteau manteaux m
umbrella umbrellas parapluie parapluies m
clock clocks horloge horloges f
image images image images f
flower flowers fleur fleurs f
apple apples pomme pommes f
egg eggs œuf œufs m
lamp lamps lampe lampes f
shirt shirts chemise chemises f
ring rings bague bagues f
computer computers ordinateur ordinateurs m
telephone telephones téléphone téléphones m
piano pianos piano pianos m
guitar guitars guitare guitares f
mirror mirrors miroir miroirs m
jewel jewels bijou bijoux m
newspaper newspapers journal journaux m
instrument instruments instrument instruments m
plate plates assiette assiettes f
""")

CONTAINERS = nouns("""
box boxes boîte boîtes f
bag bags sac sacs m
fridge fridges frigo frigos m
drawer drawers tiroir tiroirs m
basket baskets panier paniers m
cupboard cupboards armoire armoires f
bottle bottles bouteille bouteilles f
pocket pockets poche poches f
""")

PLACES = nouns("""
garden gardens jardin jardins m
kitchen kitchens cuisine cuisines f
house houses maison maisons f
forest forests forêt forêts f
hotel hotels hôtel hôtels m
church churches église églises f
school schools école écoles f
museum museums musée musées m
station stations gare gares f
park parks parc parcs m
market markets marché marchés m
castle castles château châteaux m
village villages village villages m
library libraries bibliothèque bibliothèques f
hospital hospitals hôpital hôpitaux m
office offices bureau bureaux m
""")

# full of ...: French wants "de" and no article
CONTENTS = phrases("""
fish | poissons
food | nourriture
water | eau
gold | or
money | argent
sand | sable
honey | miel
old shoes | vieilles chaussures
ink | encre
""")

# things one likes in general: English has no article, French has
PLEASURES = phrases("""
cheese | le fromage
pizza | la pizza
soup | la soupe
chocolate | le chocolat
music | la musique
coffee | le café
tea | le thé
rain | la pluie
snow | la neige
silence | le silence
summer | le été
winter | le hiver
history | la histoire
holidays | les vacances
spinach | les épinards
oysters | les huîtres
""")

# French puts these before the noun; + marks forms that change before a vowel
ADJECTIVES_BEFORE = adjectives("""
small petit
big grand
pretty joli
bad mauvais mauvaise mauvais mauvaises
long long longue longs longues
beautiful beau+ belle beaux belles
new nouveau+ nouvelle nouveaux nouvelles
old vieux+ vieille vieux vieilles
""")

ADJECTIVES_LIVING = adjectives("""
small petit
young jeune
beautiful beau+ belle beaux belles
old vieux+ vieille vieux vieilles
""")

ADJECTIVES_AFTER = adjectives("""
red rouge
green vert
blue bleu
black noir
white blanc blanche blancs blanches
yellow jaune
heavy lourd
expensive cher chère chers chères
empty vide
clean propre
dirty sale
strange étrange
modern moderne
ordinary ordinaire
precious précieux
useless inutile
elegant élégant
""")

# said of people and animals; the first group has one form for both genders, so "i am sad" has one translation
MOODS_NEUTRAL = adjectives("""
sad triste
sick malade
young jeune
rich riche
poor pauvre
shy timide
calm calme
honest honnête
famous célèbre
agile agile
""")
MOODS_GENDERED = adjectives("""
happy heureux
tired fatigué
ready prêt
kind gentil gentille gentils gentilles
angry fâché
proud fier fière fiers fières
brave courageux
curious curieux
jealous jaloux
lazy paresseux
absent absent
""")

# English says "a student", French just "étudiant"
TRADES = words("""
student étudiant étudiante
lawyer avocat avocate
singer chanteur chanteuse
musician musicien musicienne
engineer ingénieur ingénieure
farmer fermier fermière
dancer danseur danseuse
writer écrivain écrivaine
""")
TRADES_NEUTRAL = phrases("""
journalist | journaliste
architect | architecte
dentist | dentiste
artist | artiste
pianist | pianiste
detective | détective
librarian | bibliothécaire
""")

TRANSITIVE = verbs("""
have | has | ai as a avons avez ont
see | sees | vois vois voit voyons voyez voient
want | wants | veux veux veut voulons voulez veulent
sell | sells | vends vends vend vendons vendez vendent
buy | buys | achète achètes achète achetons achetez achètent
lose | loses | perds perds perd perdons perdez perdent
look for | looks for | chercher
find | finds | trouver
draw | draws | dessiner
hide | hides | cacher
admire | admires | admirer
forget | forgets | oublier
keep | keeps | garder
borrow | borrows | emprunter
""")

LIKING = verbs("""
like | likes | aimer
hate | hates | détester
adore | adores | adorer
miss | misses | regretter
prefer | prefers | préfère préfères préfère préférons préférez préfèrent
""")

ACTIVITIES = verbs("""
sleep | sleeps | dors dors dort dormons dormez dorment
wait | waits | attends attends attend attendons attendez attendent
run | runs | cours cours court courons courez courent
play | plays | jouer
sing | sings | chanter
dance | dances | danser
eat | eats | manger
arrive | arrives | arriver
""")

BE = {"present": ("suis", "es", "est", "sommes", "êtes", "sont"),
      "past": ("étais", "étais", "était", "étions", "étiez", "étaient")}  # fmt: skip
