"""Writes unicode_16.cpp: the general category of every code point in Unicode 16.0.

    pip install unicodedata2==16.0.0 && python3 generate_unicode_16.py > unicode_16.cpp && clang-format -i unicode_16.cpp
"""
import unicodedata2

assert unicodedata2.unidata_version == "16.0.0"
rows = []
for code_point in range(0x110000):
    category = unicodedata2.category(chr(code_point))
    if not rows or rows[-1][1] != category:
        rows.append((code_point, category))
print("// Made by generate_unicode_16.py; not edited by hand.")
print('#include "weft/tokenizer/unicode/unicode_16.h"\n')
print("namespace weft::unicode {\n")
print("const std::array<CategoryRun, category_runs> categories = {{")
print("".join("{0x%x, Category::%s}," % row for row in rows))
print("}};\n")
print("}  // namespace weft::unicode")
import sys
print(len(rows), file=sys.stderr)
