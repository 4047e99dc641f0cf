"""Write the committed files."""

from tools.concepts.pictures import files

for path, content in files().items():
    path.write_text(content, encoding="utf-8")
