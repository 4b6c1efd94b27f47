"""Checks a document against the published schemas in docs/reference/schemas.

Knows the part of JSON Schema that those use; a keyword it does not know is an error, so that nothing passes unseen.
"""
import json
import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "docs/reference/schemas"
NOTES = {"$schema", "$defs", "title", "description"}
TYPES = {
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "boolean": lambda v: isinstance(v, bool),
    "array": lambda v: isinstance(v, list),
    "object": lambda v: isinstance(v, dict),
    "null": lambda v: v is None,
}


def problems(value, schema, root=None, at="$"):
    """What is wrong with `value`, as sentences."""
    root = root or schema
    if "$ref" in schema:
        return problems(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, at)
    found = []
    for keyword, rule in schema.items():
        if keyword in NOTES or keyword in ("properties", "additionalProperties") and not isinstance(value, dict):
            continue
        if keyword == "type":
            kinds = rule if isinstance(rule, list) else [rule]
            if not any(TYPES[k](value) for k in kinds):
                return [f"{at} is {value!r}, not {rule}"]
        elif keyword == "const":
            found += [f"{at} is {value!r}, not {rule!r}"] if value != rule else []
        elif keyword == "enum":
            found += [f"{at} is {value!r}, not one of {rule}"] if value not in rule else []
        elif keyword == "anyOf":
            tried = [problems(value, s, root, at) for s in rule]
            found += tried[0] if all(tried) else []
        elif keyword == "pattern":
            found += [f"{at} is {value!r}"] if not re.search(rule, value) else []
        elif keyword == "minimum":
            found += [f"{at} is {value}, below {rule}"] if value < rule else []
        elif keyword in ("minItems", "maxItems"):
            wrong = len(value) < rule if keyword == "minItems" else len(value) > rule
            found += [f"{at} has {len(value)} items, {keyword} {rule}"] if wrong else []
        elif keyword == "items":
            for i, item in enumerate(value):
                found += problems(item, rule, root, f"{at}[{i}]")
        elif keyword == "required":
            found += [f"{at} has no {key}" for key in rule if key not in value]
        elif keyword == "properties":
            for key, rest in rule.items():
                if key in value:
                    found += problems(value[key], rest, root, f"{at}.{key}")
        elif keyword == "additionalProperties":
            for key in value.keys() - schema.get("properties", {}).keys():
                if rule is False:
                    found.append(f"{at}.{key} is not in the schema")
                elif isinstance(rule, dict):
                    found += problems(value[key], rule, root, f"{at}.{key}")
        else:
            raise ValueError(f"schema keyword {keyword}")
    return found


def check(document):
    """Raises when a document does not fit the schema that it names."""
    name = document.get("schema")
    path = FOLDER / f"{str(name).replace('/', '-')}.json"
    if not path.exists():
        raise AssertionError(f"{name} is not published in {FOLDER.name}")
    found = problems(document, json.loads(path.read_text()))
    if found:
        raise AssertionError(f"a document does not fit {path.name}:\n  " + "\n  ".join(found[:10]))
