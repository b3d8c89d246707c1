#version 3.7;
global_settings { assumed_gamma 1.0 }
camera { location <0, 2, -6> look_at <0, 1, 0> }
light_source { <5, 8, -6> color rgb 1 area_light <1, 0, 0>, <0, 0, 1>, 3, 3 }
plane { y, 0 pigment { checker color rgb 1 color rgb 0.3 } finish { reflection 0.2 } }
sphere { <-1, 1, 0> 1 pigment { color rgbf <0.9, 0.9, 1, 0.9> } interior { ior 1.5 } }
sphere { <1.2, 1, 0.5> 1 pigment { color rgb <0.8, 0.2, 0.1> } finish { reflection 0.4 phong 0.8 } }
