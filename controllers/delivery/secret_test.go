package delivery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
)

// No rendering shows a key, wherever it stands.
func TestSecretIsNeverShown(t *testing.T) {
	g := NewWithT(t)
	key := NewSecret(testKey)
	type exported struct{ Key Secret }
	type hidden struct{ key Secret }
	values := []any{key, &key, []Secret{key}, map[Secret]Secret{key: key}, exported{key}, &exported{key}, hidden{key}, &hidden{key}, Target{Key: key}}
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t"} {
			g.Expect(fmt.Sprintf(verb, v)).NotTo(Or(ContainSubstring(testKey), ContainSubstring(fmt.Sprintf("%x", testKey))), "%s of %T", verb, v)
		}
		var b bytes.Buffer
		slog.New(slog.NewTextHandler(&b, nil)).Info("m", "v", v)
		slog.New(slog.NewJSONHandler(&b, nil)).Info("m", "v", v)
		funcr.New(func(_, args string) { b.WriteString(args) }, funcr.Options{}).Info("m", "v", v)
		g.Expect(b.String()).NotTo(ContainSubstring(testKey))
	}
	g.Expect(key.String()).To(Equal("[redacted]"))
	data, err := json.Marshal(exported{key})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(data)).To(Equal(`{"Key":"[redacted]"}`))
}

func TestSecretCompares(t *testing.T) {
	g := NewWithT(t)
	g.Expect(NewSecret("a")).To(BeIdenticalTo(NewSecret("a")))
	g.Expect(NewSecret("a")).ToNot(BeIdenticalTo(NewSecret("b")))
	g.Expect(NewSecret("a").Reveal()).To(Equal("a"))
	g.Expect(NewSecret("")).To(BeIdenticalTo(Secret{}))
	g.Expect(Secret{}.Reveal()).To(BeEmpty())
	g.Expect(Secret{}.Empty()).To(BeTrue())
}
