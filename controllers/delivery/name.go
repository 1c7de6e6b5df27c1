package delivery

import (
	"errors"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// errInvalidName is what invocationURL returns for a name that is never sent.
var errInvalidName = errors.New("the function's name cannot stand in a URL as one path segment")

// validName reports whether a function of this name can be invoked over HTTP:
// its name can stand in a URL as one path segment, also behind gateways that
// unescape it before they route.
func validName(function string) bool {
	if function == "" || !utf8.ValidString(function) || strings.ContainsFunc(function, unicode.IsControl) {
		return false
	}
	// A gateway that unescapes %2F and cleans the path would leave the functions
	// prefix with a/../../b and hand the key to some other route.
	for segment := range strings.FieldsFuncSeq(function, func(r rune) bool { return r == '/' || r == '\\' }) {
		if segment == "." || segment == ".." {
			return false
		}
	}
	return true
}

// invocationURL returns where the function is invoked: the endpoint with the
// name as one escaped path segment. User, query and fragment of the endpoint are
// left out: they are no part of a functions URL.
func invocationURL(endpoint *url.URL, function string) (*url.URL, error) {
	if !validName(function) {
		return nil, errInvalidName
	}
	prefix := strings.TrimRight(endpoint.EscapedPath(), "/")
	escaped := prefix + "/" + url.PathEscape(function)
	path, err := url.PathUnescape(escaped)
	if err != nil {
		return nil, err
	}
	return &url.URL{Scheme: endpoint.Scheme, Host: endpoint.Host, Path: path, RawPath: escaped}, nil
}
