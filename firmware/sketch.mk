# Builds a sketch with Debian's gcc-avr, avr-libc and arduino-core-avr, from the sources arduino-cli uses. A sketch's
# Makefile sets SKETCH, SOURCES (its plain C files) and BOARDS (mega, uno), then includes this file.
#   make                     build/<target>.elf and .hex for each board, with the size of each section
#   make flash PORT=/dev/…   write the first board's to it over USB (boot loader); needs Debian's avrdude

F_CPU      := 16000000L
ARDUINO    ?= /usr/share/arduino/hardware/arduino/avr
BUILD      ?= build
PORT       ?=
FLASH_BAUD ?= 115200
DEFINES    ?=

MCU_mega     := atmega2560
VARIANT_mega := mega
NAME_mega    := MEGA2560
LOADER_mega  := m2560 -c wiring
MCU_uno      := atmega328p
VARIANT_uno  := standard
NAME_uno     := UNO
LOADER_uno   := m328p -c arduino

# One board: build/<sketch>; several: build/<sketch>-<board>.
target = $(SKETCH)$(if $(word 2,$(BOARDS)),-$(1))

CC  := avr-gcc
CXX := avr-g++

# DECIMAL_DIG: gcc-avr 5.4 (Debian 12) does not define the name that Arduino's String wants.
COMMON_FLAGS := -DF_CPU=$(F_CPU) -DARDUINO=10819 -DARDUINO_ARCH_AVR -DDECIMAL_DIG=__DECIMAL_DIG__ -Os -g \
                -ffunction-sections -fdata-sections -flto -fno-fat-lto-objects -I$(ARDUINO)/cores/arduino -MMD -MP \
                $(DEFINES)
OWN_WARNINGS := -Wall -Wextra -Werror
CFLAGS       := -std=gnu11
CXXFLAGS     := -std=gnu++11 -fpermissive -fno-exceptions -fno-threadsafe-statics

CORE_SOURCES := $(wildcard $(ARDUINO)/cores/arduino/*.c $(ARDUINO)/cores/arduino/*.cpp $(ARDUINO)/cores/arduino/*.S)

.PHONY: all flash clean
all: $(foreach board,$(BOARDS),$(BUILD)/$(call target,$(board)).hex)
	avr-size $(^:.hex=.elf)

# $(1) is the board.
define board_rules
FLAGS_$(1) := $$(COMMON_FLAGS) -mmcu=$$(MCU_$(1)) -DARDUINO_AVR_$$(NAME_$(1)) -I$$(ARDUINO)/variants/$$(VARIANT_$(1))
CORE_OBJECTS_$(1) := $$(addprefix $$(BUILD)/core-$(1)/,$$(addsuffix .o,$$(notdir $$(CORE_SOURCES))))
OWN_OBJECTS_$(1) := $$(addprefix $$(BUILD)/own-$(1)/,$$(SKETCH).ino.o $$(addsuffix .o,$$(SOURCES)))

$$(BUILD)/$(call target,$(1)).hex: $$(BUILD)/$(call target,$(1)).elf
	avr-objcopy -O ihex -R .eeprom $$< $$@

$$(BUILD)/$(call target,$(1)).elf: $$(OWN_OBJECTS_$(1)) $$(BUILD)/core-$(1).a
	$$(CXX) $$(FLAGS_$(1)) -fuse-linker-plugin -Wl,--gc-sections -o $$@ $$^ -lm

# An archive, so that only the parts of the core in use (one serial port of four) are linked.
$$(BUILD)/core-$(1).a: $$(CORE_OBJECTS_$(1))
	rm -f $$@
	avr-gcc-ar rcs $$@ $$^

$$(BUILD)/own-$(1)/$$(SKETCH).ino.o: $$(SKETCH).ino | $$(BUILD)/own-$(1)
	$$(CXX) $$(FLAGS_$(1)) $$(CXXFLAGS) $$(OWN_WARNINGS) -include Arduino.h -x c++ -c -o $$@ $$<

$$(BUILD)/own-$(1)/%.c.o: %.c | $$(BUILD)/own-$(1)
	$$(CC) $$(FLAGS_$(1)) $$(CFLAGS) $$(OWN_WARNINGS) -c -o $$@ $$<

$$(BUILD)/core-$(1)/%.c.o: $$(ARDUINO)/cores/arduino/%.c | $$(BUILD)/core-$(1)
	$$(CC) $$(FLAGS_$(1)) $$(CFLAGS) -w -c -o $$@ $$<

$$(BUILD)/core-$(1)/%.cpp.o: $$(ARDUINO)/cores/arduino/%.cpp | $$(BUILD)/core-$(1)
	$$(CXX) $$(FLAGS_$(1)) $$(CXXFLAGS) -w -c -o $$@ $$<

$$(BUILD)/core-$(1)/%.S.o: $$(ARDUINO)/cores/arduino/%.S | $$(BUILD)/core-$(1)
	$$(CC) $$(FLAGS_$(1)) -w -x assembler-with-cpp -c -o $$@ $$<

$$(BUILD)/core-$(1) $$(BUILD)/own-$(1):
	mkdir -p $$@
endef
$(foreach board,$(BOARDS),$(eval $(call board_rules,$(board))))

FIRST := $(firstword $(BOARDS))
flash: $(BUILD)/$(call target,$(FIRST)).hex
	@test -n "$(PORT)" || { echo "make flash: say where the board is, for example: make flash PORT=/dev/ttyUSB0" >&2; exit 2; }
	avrdude -p $(LOADER_$(FIRST)) -b $(FLASH_BAUD) -P $(PORT) -D -U flash:w:$<:i

clean:
	rm -rf $(BUILD)

-include $(wildcard $(BUILD)/*/*.d)
