from .ast import Expression as Tree
from .grammar import MURANOPL, STANDARD, Grammar
from .parser import parse
