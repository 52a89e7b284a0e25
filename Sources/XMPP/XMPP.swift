// XMPP
