"""Words that are paths, commands, markup, or look like other words."""

WORDS = [
    "", " ", ".", "..", "../x", "a/b", "a\\b", "/etc/passwd", "~", "~root", "a..b", "A", "Aa", "aB",
    "1a", "_a", "-a", "a b", " a", "a ", "a\n", "\na", "a\t", "a\0", "a\0b", "a%2e", "%2e%2e",
    "a:b",
    "a;b", "a'b", 'a"b', "a`b", "a$b", "$(x)", "a|b", "a&b", "a<b", "a>b", "a*b", "a?b", "a[b",
    "a]b",
    "a{b", "a}b", "a(b", "a)b", "a#b", "a!b", "a@b", "a=b", "a+b", "a,b", "a^b", "a.b", "a~b", "é",
    "aé", "ä", "а", "aа", "α", "名", "a\u200b", "a\u202e", "\ufeffa", "a\u0301", "ａ", "ⓐ", "ﬁ",
    "İ", "ı",
    "ſ", "\ud800", "a\ud800", "😀", "a😀", "con.", "a.db", "a" * 65, "a" * 5000, "nul\0",
    "a\r", "a\x7f",
    "a\x1b[31m", "a\x85", "a\u2028", "'; DROP TABLE pieces; --", "a' OR '1'='1", "{{a}}", "${a}",
    "a\\n", "\\\\server\\share", "file:a", "a//b", "./a", "a/.", "a/..", "..\\a", "....//", "..%2f",
    "%00", "a%00", "&#97;", "<b>", "a\x08", "\x00", "\x01", "a\xa0", "\xa0", "a\u3000", "０", "a０",
    "a１", "a\u00ad", "a‐b", "a–b", "a—b", "a−b", "a＿b", "٣", "a٣",
]  # fmt: skip
