import Testing

@testable import ConfigurationKeys

/// Passwords do not belong into the configuration: they are refused, and shown nowhere.
extension ConfigurationTests {
    @Test(
        "passwords in any of libpq's forms are refused",
        arguments: [
            ("postgresql://u:p@h/d", true), ("postgres://u@h/d?password=x", true), ("host=h password=x", true),
            ("postgresql://u@h:5432,g:5433/d", false), ("host=h passfile=/p", false),
            ("postgresql:///d?passfile=/p", false),
            ("postgresql://[::1]:5432/d", false), ("postgresql://u@[::1]:5432/d?sslmode=require", false),
            ("postgresql:///d?host=/run/postgresql&user=u", false), ("host=h require_auth=password user=u", false),
            // As libpq reads them.
            ("postgresql://u:FAKE?x@h/d", true), ("postgresql://u:FAKE#x@h/d", true),
            ("postgresql://u:FA%4BE@h/d", true), ("postgresql://u:FAKE@x@h/d", true),
            ("postgresql://u?x@h/d?password=FAKE", true), ("postgresql://u@h?password=FAKE@x", true),
            ("postgresql:///d?pass%77ord=FAKE", true), ("host=h password = FAKE", true),
            ("host=h user=u sslpassword=FAKE", true), ("user=u oauth_client_secret=FAKE", true),
            // As they were meant.
            ("postgresql://u:FAKE/x@h/d", true), ("postgresql://u:FA?KE/x@h/d", true),
            ("postgresql://u@h:FAKE@x/d", true), ("mysql://u:FAKE@h/d", true), ("u:FAKE@h/d", true),
            // Without a host; libpq quotes such a port.
            ("postgresql://u:FAKE", true), ("postgresql://u:FAKE/d", true), ("postgresql://h:5432,g:FAKE/d", true),
            ("postgresql://[::1]:FAKE/d", true), ("postgresql://h:/d", false),
        ]
    )
    func passwords(url: String, isRefused: Bool) {
        let found = problems(minimal.replacing("postgresql:///upstream", with: url))
        #expect(found.contains { $0.contains("password") } == isRefused, "\(found)")
        #expect(!found.joined().contains("FAKE") && CredentialText("user='u'password=FAKE").holdsPassword)
    }

    @Test(
        "a password is masked wherever a connection string can hold one",
        arguments: [
            ("postgresql://u:FAKE-pw@h/d", "postgresql://u:***@h/d"),
            ("postgresql://u:FAKE@pw@h/d?sslmode=require", "postgresql://u:***@h/d?sslmode=require"),
            ("postgres://u@h/d?password=FAKE-pw&passfile=/p", "postgres://u@h/d?password=***&passfile=/p"),
            ("postgresql:///d?pass%77ord=FAKE-pw", "postgresql:///d?pass%77ord=***"),
            ("host=h password = 'FAKE pw' user=u", "host=h password =***"),
            ("host=h sslpassword=FAKE-pw", "host=h sslpassword=***"), ("host=h passfile=/p", "host=h passfile=/p"),
            ("https://h/x?token=FAKE-pw&y", "https://h/x?token=***&***"),
            ("https://u:FAKE-pw@h/", "https://u:***@h/"), ("https://FAKE-pw@h/x", "https://***@h/x"),
            // What should have been escaped; libpq reads the first of them as it was meant.
            ("postgresql://u:FAKE?pw@h/d?sslmode=require", "postgresql://u:***@h/d?sslmode=require"),
            ("postgresql://u:FAKE#pw@h/d", "postgresql://u:***@h/d"),
            ("postgresql://u:FAKE/pw@h/d", "postgresql://u:***@h/d"),
            ("postgresql://u:FA?KE/pw@h/d", "postgresql://u:***@h/d"),
            ("postgresql://u:FA%4BE@h/d", "postgresql://u:***@h/d"),
            ("postgresql://u:FAKE@pw?FAKE=1@h/d?sslmode=require", "postgresql://u:***"),
            ("postgresql://u?FAKE@h/d", "postgresql://u?***"),
            ("postgresql://u@h:FAKE@x/d", "postgresql://u@h:***@x/d"),
            ("POSTGRES://u:FAKE-pw@h/d", "POSTGRES://u:***@h/d"), ("u:FAKE-pw@h/d", "u:***@h/d"),
            ("user='u'password=FAKE-pw", "user='u'password=***"),
            ("host=h password=FAKE-pw options='x://y'", "host=h password=***"),
            ("postgresql:///d?oauth_client_secret=FAKE-pw", "postgresql:///d?oauth_client_secret=***"),
            ("postgresql://h:5432/d?sslmode=require", "postgresql://h:5432/d?sslmode=require"),
            ("postgresql://u:FAKE-pw", "postgresql://u:***"),
        ]
    )
    func masked(_ url: String, _ shown: String) {
        for key in ["database.url", "database.read_url", "console.database.url"] {
            #expect(ConfigurationMask.shown(url, of: key) == shown)
        }
    }

    @Test(
        "a credential is masked in every key that is a URL",
        arguments: [
            ("tracing.endpoint", "https://u:FAKE@a.example:4318/x", "https://u:***@a.example:4318/x"),
            ("tracing.endpoint", "https://a.example/?key=FAKE", "https://a.example/?key=***"),
            ("tracing.endpoint", "a.example/?FAKE", "a.example/?***"),
            ("tracing.endpoint", "HTTP://FAKE@a.example", "HTTP://***@a.example"),
            ("handlers.0.webhook.url", "HTTPS://u:FAKE/x@a.example/", "HTTPS://u:***@a.example/"),
            ("handlers.0.webhook.headers", "X-Key FAKE", "***"), ("log.level", "a:b@c", "a:b@c"),
        ]
    )
    func maskedKeys(_ key: String, _ value: String, _ shown: String) {
        #expect(ConfigurationMask.shown(value, of: key) == shown)
    }
}
