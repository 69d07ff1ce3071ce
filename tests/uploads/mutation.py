import random
import struct


def mutate(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        i = chance.randrange(len(changed))
        match chance.randrange(5):
            case 0:
                changed[i] = chance.randrange(256)
            case 1:
                changed[i] ^= 1 << chance.randrange(8)
            case 2 if i:
                del changed[i : i + chance.randint(1, 16)]
            case 3:
                changed[i:i] = changed[i : i + chance.randint(1, 16)]
            case _:
                number = chance.choice([0, 1, 2**15, 2**16 - 1, 2**31 - 1, 2**32 - 1])
                changed[i : i + 4] = struct.pack("<L", number)
    return bytes(changed)
