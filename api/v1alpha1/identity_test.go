package v1alpha1_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	fixedName     = "functionName cannot be changed, set or removed later"
	fixedDatabase = "databaseSecretRef cannot be changed, set or removed later"
)

// ownDatabase is a spec with a database of its own; a nil database is left out.
func ownDatabase(database fields) fields {
	spec := fields{"endpoint": endpoint("http://functions"), "authSecretRef": ref("auth", "key")}
	if database != nil {
		spec["databaseSecretRef"] = database
	}
	return spec
}

var _ = Describe("the registration that an object stands for", func() {
	DescribeTable("cannot be changed", func(ctx SpecContext, before, after fields, message string) {
		u := create(ctx, before)
		if after == nil {
			delete(u.Object, "spec")
		} else {
			u.Object["spec"] = after
		}
		err := k8s.Update(ctx, u)
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "error: %v", err)
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("function name: changed", fields{"functionName": "one"}, fields{"functionName": "two"}, fixedName),
		Entry("function name: removed", fields{"functionName": "one"}, fields{}, fixedName),
		Entry("function name: removed with the whole spec", fields{"functionName": "one"}, nil, fixedName),
		Entry("function name: set", fields{}, fields{"functionName": "one"}, fixedName),
		Entry("function name: set where there was no spec", nil, fields{"functionName": "one"}, fixedName),
		Entry("database: another Secret", ownDatabase(ref("one", "url")), ownDatabase(ref("two", "url")), fixedDatabase),
		Entry("database: another key", ownDatabase(ref("one", "url")), ownDatabase(ref("one", "uri")), fixedDatabase),
		Entry("database: removed", ownDatabase(ref("one", "url")), ownDatabase(nil), fixedDatabase),
		Entry("database: removed with the whole spec", ownDatabase(ref("one", "url")), nil, fixedDatabase),
		Entry("database: set", ownDatabase(nil), ownDatabase(ref("one", "url")), fixedDatabase),
		Entry("database: set where there was no spec", nil, ownDatabase(ref("one", "url")), fixedDatabase),
	)

	DescribeTable("stays while the rest changes", func(ctx SpecContext, before, after fields) {
		u := create(ctx, before)
		u.Object["spec"] = after
		Expect(k8s.Update(ctx, u)).To(Succeed())
	},
		Entry("mirrored fields and switches", fields{"functionName": "one", "enabled": true, "debounce": "6s"},
			fields{"functionName": "one", "enabled": false, "startMode": "process", "suspend": true, "deletionPolicy": "Orphan"}),
		Entry("mirrored fields, with the name left to the object", nil, fields{"enabled": true}),
		Entry("endpoint and key set", fields{"functionName": "one"},
			fields{"functionName": "one", "endpoint": endpoint("http://functions"), "authSecretRef": ref("auth", "key")}),
		Entry("endpoint and key changed", ownDatabase(ref("one", "url")),
			fields{"databaseSecretRef": ref("one", "url"), "endpoint": endpoint("https://elsewhere"), "authSecretRef": ref("other", "key")}),
	)
})
