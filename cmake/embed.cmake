# Makes a C file with the text of every JSON file of a folder: cmake -DFOLDER=... -DSYMBOL=... -DOUT=... -DHEADER=... -P embed.cmake.
# With -DFILES=a,b,c of these files instead.
# The result has a table SYMBOL of {name, text}, names sorted, ending with {NULL, NULL}.
if(FILES)
  string(REPLACE "," ";" files "${FILES}")
else()
  file(GLOB files ${FOLDER}/*.json)
endif()
list(SORT files)
set(arrays "")
set(rows "")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WLE)
  string(MAKE_C_IDENTIFIER "text_${name}" id)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
  string(APPEND arrays "static const char ${id}[] = {${bytes}0};\n")
  string(APPEND rows "    {\"${name}\", ${id}},\n")
endforeach()
file(WRITE ${OUT} "#include <stddef.h>\n\n#include \"${HEADER}\"\n\n${arrays}\n"
  "const struct pz_embedded ${SYMBOL}[] = {\n${rows}    {NULL, NULL},\n};\n")
