"""Examples in docstrings and in doc/python.md."""
import doctest
import importlib
import os
import pathlib
import pkgutil
import re
import unittest

import phaze

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Docs(unittest.TestCase):
    def test_docstrings(self):
        count = 0
        for module in ["phaze"] + [f"phaze.{m.name}" for m in pkgutil.iter_modules(phaze.__path__)]:
            if module.endswith("._phaze"):
                continue
            found = doctest.testmod(importlib.import_module(module), optionflags=FLAGS)
            self.assertEqual(found.failed, 0, module)
            count += found.attempted
        print(f"{count} examples in docstrings")
        self.assertGreater(count, 50)

    def test_everything_public_has_a_docstring(self):
        for name in phaze.__all__:
            self.assertTrue(getattr(phaze, name).__doc__, name)

    def test_document(self):
        source = pathlib.Path(os.environ["PHAZE_SOURCE"])
        path = source / "doc" / "python.md"
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(source)  # where examples/ is
        text = "\n".join(re.findall(r"```pycon\n(.*?)```", path.read_text(), re.S))
        text = re.sub(r"\n\n(?=[^>\n])", "\n<BLANKLINE>\n", text)  # inside of outputs
        test = doctest.DocTestParser().get_doctest(text, {}, path.name, str(path), 0)
        found = doctest.DocTestRunner(optionflags=FLAGS).run(test)
        self.assertEqual(found.failed, 0)
        self.assertGreater(found.attempted, 10)


if __name__ == "__main__":
    unittest.main()
