package delivery

import (
	"encoding/json"
	"strings"
	"unicode"
)

// maxMessage is the longest message in characters.
const maxMessage = 256

// messageFields are the fields of a JSON answer that may be shown, the most
// telling first.
var messageFields = [...]string{"error", "msg", "message", "code"}

// bodyMessage returns what an answer says of itself: the first of the shown
// fields that holds text or a number. Anything that is not a JSON object says
// nothing.
func bodyMessage(body []byte, key Secret) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return ""
	}
	for _, name := range messageFields {
		var text string
		var number json.Number
		switch raw := fields[name]; {
		case json.Unmarshal(raw, &text) == nil:
		case json.Unmarshal(raw, &number) == nil:
			text = number.String()
		}
		if text = printable(text, key); text != "" {
			return text
		}
	}
	return ""
}

// printable returns text fit for a status: without the key, on one line, of
// printable characters only, at most maxMessage of them.
func printable(text string, key Secret) string {
	if !key.Empty() {
		text = strings.ReplaceAll(text, key.Reveal(), redacted)
	}
	var b strings.Builder
	n, gap := 0, false
	for _, r := range text {
		if !unicode.IsGraphic(r) || unicode.IsSpace(r) || r == unicode.ReplacementChar {
			gap = n > 0
			continue
		}
		if gap && n < maxMessage {
			b.WriteByte(' ')
			n++
		}
		gap = false
		if n >= maxMessage {
			break
		}
		b.WriteRune(r)
		n++
	}
	return strings.TrimRight(b.String(), " ")
}
