# install.mk - what is installed and how: shared libraries with versions, manual pages, install, uninstall. Included by
# the Makefile. Everything installed is below PREFIX and finds the rest from where it is itself: the tree may be moved.
DESTDIR    ?=
PREFIX     ?= /usr/local
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR     ?= $(PREFIX)/share/man

VERSION    := $(shell sed -n 's/^.define DCPK_VERSION_TEXT "\(.*\)"/\1/p' include/dcpk/base.h)
SOVERSION  := 0
MANUALS    := $(patsubst docs/man/%.scd,$(BUILD)/man/%,$(wildcard docs/man/*.scd))
symbols     = tools/packaging/symbols
# A variable as one word of the shell, whatever it holds.
word_of     = '$(subst ','\'',$($(1)))'
defined     = $(if $(findstring -fsanitize,$(OPT)),,-Wl,-z,defs)

.PHONY: install uninstall package
install:
	$(call setup,install)
	+$(again) programs package
	$(Q)tools/packaging/install put $(BUILD) '$(VERSION)' '$(SOVERSION)' $(foreach name,DESTDIR PREFIX LIBDIR INCLUDEDIR MANDIR,$(call word_of,$(name)))
uninstall:
	$(Q)tools/packaging/install remove $(call word_of,DESTDIR) $(call word_of,PREFIX)
package: $(BUILD)/package/libdcpk.a $(BUILD)/package/libdcpkgen.a $(BUILD)/libdcpk.so.$(SOVERSION) $(BUILD)/libdcpkgen.so.$(SOVERSION) $(BUILD)/libdcpkcpu.so $(MANUALS)

$(BUILD)/%.map: $(symbols) $(wildcard include/dcpk/*.h runtime/*.h)
	$(Q)mkdir -p $(@D)
	$(Q)$(symbols) map $* >$@.new && { cmp -s $@.new $@ && rm $@.new || mv $@.new $@; }
$(BUILD)/%.so.$(SOVERSION): $(BUILD)/%.so
	$(Q)ln -sf $(<F) $@

$(BUILD)/libdcpk.so: $(call obj,$(RUNTIME_SRC)) $(BUILD)/libdcpk.map
	$(call say,LD,$@)
	$(Q)$(CC) $(OPT) $(LDFLAGS) -shared -Wl,-soname,$(@F).$(SOVERSION) -Wl,--version-script=$(BUILD)/libdcpk.map $(defined) \
	    -o $@ $(filter %.o,$^) -ldl -lpthread
# Lua's static library goes in where it is position-independent (Debian's is not), else the shared one is needed.
$(BUILD)/libdcpkgen.so: $(call obj,$(GEN_SRC)) $(BUILD)/libdcpkgen.map $(BUILD)/libdcpk.so $(BUILD)/libdcpk.so.$(SOVERSION)
	$(call say,LD,$@)
	$(Q)link() { $(CC) $(OPT) $(LDFLAGS) -shared -Wl,-soname,$(@F).$(SOVERSION) -Wl,--version-script=$(BUILD)/libdcpkgen.map \
	    $(defined) -Wl,-rpath,'$$ORIGIN' -o $@ $(filter %.o,$^) $(BUILD)/libdcpk.so "$$@" -lm -ldl -lpthread; }; \
	link $(LUA_LIB) 2>/dev/null || link $(LUA_LIBS)
$(BUILD)/libdcpkcpu.so: $(call obj,$(CPU_SRC))
	$(call say,LD,$@)
	$(Q)$(CC) $(OPT) $(LDFLAGS) -shared -Wl,-soname,$(@F) -o $@ $^ -lm -lpthread

# Static libraries for others: one object each, in which only public names, and those that the two share, are global.
$(BUILD)/package/%.a: $(BUILD)/%.a $(symbols) $(wildcard runtime/*.h)
	$(call say,AR,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(symbols) renames libdcpk >$(@:.a=.renames)
	$(Q)$(CC) -r -nostdlib -o $(@:.a=.o) -Wl,--whole-archive $<
	$(Q)objcopy --localize-hidden --redefine-syms=$(@:.a=.renames) $(@:.a=.o)
	$(Q)rm -f $@ && $(AR) rcs $@ $(@:.a=.o)

# Manual pages: the text of docs/man with the tables that the command itself prints.
$(BUILD)/man/%: docs/man/%.scd tools/packaging/manual $(BUILD)/dcpk
	$(call say,MAN,$@)
	$(Q)mkdir -p $(@D)
	$(Q)tools/packaging/manual $(BUILD)/dcpk $< >$@.scd
	$(Q)scdoc <$@.scd >$@.new && mv $@.new $@
